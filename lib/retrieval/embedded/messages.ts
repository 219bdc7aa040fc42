import type { HindsearchErrorCode } from "../../errors.js";
import type { Passage } from "../passage.js";
import type { CorpusOptions } from "../sources/options.js";
import type { IndexManifest, IndexSettings } from "./manifest.js";

/** What the parent asks the builder for. */
export interface BuildRequest {
  /** A local folder, absolute, or the address of one in an object store. */
  uri: string;
  storageOptions: Record<string, string>;
  /** `undefined`: the parent has the passages. */
  paths: string | readonly string[] | undefined;
  /** How paths are read. */
  read: Pick<CorpusOptions, "chunks" | "maxLineBytes" | "maxBytes">;
  settings: IndexSettings;
  /** Passages from which on vectors are indexed. */
  exactBelow: number;
}

/** What the builder tells: signs of life, questions (one at a time), and how it ended. */
export type BuilderMessage =
  | { kind: "alive"; passages: number; indexing: boolean; cpuMicroseconds: number }
  | { kind: "passages?" }
  | { kind: "vectors?"; texts: string[] }
  | { kind: "done"; manifest: IndexManifest }
  | { kind: "failed"; code: HindsearchErrorCode; message: string };

/** What the parent tells: the request first, then answers. */
export type ParentMessage =
  | { kind: "build"; request: BuildRequest }
  /** None: there are no more. */
  | { kind: "passages"; passages: readonly Passage[] }
  /** One after the other. */
  | { kind: "vectors"; numbers: Float32Array };
