import { HindsearchError } from "../../errors.js";
import { loadOptional } from "../../optional-package.js";

/** How a document is cut into passages. */
export interface ChunkOptions {
  /** Most words of a passage. Default 100, as the passages of Search-R1's Wikipedia. */
  words?: number | undefined;
  /** Words that a passage repeats from the end of the one before; less than `words`. Default 0. */
  overlap?: number | undefined;
}

/** Characters of a word: a longer run without white space counts as several, so that a passage has an end. */
const WORD = /\S{1,64}/gu;
/** Characters of a document that are cut at a time: the cost per character grows with the length. */
const PIECE = 1 << 18;

/** Cuts a document into passages, whole paragraphs where they fit. */
export type Chunker = (text: string) => string[];

/** @throws {@link HindsearchError} `INVALID_ARGUMENT`, `DEPENDENCY_MISSING`. */
export async function createChunker({ words = 100, overlap = 0 }: ChunkOptions = {}): Promise<Chunker> {
  if (!Number.isSafeInteger(words) || words < 1) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `chunks.words must be a whole number above 0, not ${words}.`,
    );
  }
  if (!Number.isSafeInteger(overlap) || overlap < 0 || overlap >= words) {
    const message = `chunks.overlap must be a whole number from 0 to ${words - 1}, not ${overlap}.`;
    throw new HindsearchError("INVALID_ARGUMENT", message);
  }
  const { split } = await loadOptional(
    "A folder as a corpus",
    ["llm-splitter@0.3.0"],
    () => import("llm-splitter"),
  );
  return (text) =>
    pieces(text).flatMap((piece) =>
      split(piece, {
        chunkSize: words,
        chunkOverlap: overlap,
        chunkStrategy: "paragraph",
        splitter: (part: string) => part.match(WORD) ?? [],
      })
        .map(({ text: chunk }) => chunk.trim())
        .filter((chunk) => chunk !== ""),
    );
}

/** The text in pieces that end between paragraphs where there are any, else between words. */
function pieces(text: string): string[] {
  const found: string[] = [];
  let rest = text;
  while (rest.length > PIECE) {
    const paragraph = rest.lastIndexOf("\n\n", PIECE);
    const word = paragraph > 0 ? paragraph : rest.lastIndexOf(" ", PIECE);
    const end = word > 0 ? word : PIECE - (isHigh(rest.charCodeAt(PIECE - 1)) ? 1 : 0);
    found.push(rest.slice(0, end));
    rest = rest.slice(end);
  }
  return [...found, rest];
}

function isHigh(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
