import type { HindsearchErrorCode } from "../../errors.js";
import type { Passage } from "../passage.js";

/** As of `CorpusOptions`. */
export interface ParquetLimits {
  maxLineBytes: number | undefined;
  maxBytes: number | undefined;
}

/** The same every time: the next passages of this file. */
export interface ParquetRequest {
  path: string;
  limits: ParquetLimits;
}

/** No passages at the end. */
export type ParquetReply = { passages: Passage[] } | { code: HindsearchErrorCode; message: string };
