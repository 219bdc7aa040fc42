import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { HindsearchError } from "../errors.js";

/** Names inside the index folder, shared by the builder and the reader. */
export const TABLE = "passages";
export const COLUMN = "contents";
export const INDEX = `${COLUMN}_idx`;

const MANIFEST = "hindsearch-index.json";
const FORMAT = 1;

/** Written last: a folder with it holds a complete index. */
export async function writeManifest(folder: string, passages: number): Promise<void> {
  await writeFile(join(folder, MANIFEST), `${JSON.stringify({ format: FORMAT, passages })}\n`);
}

/**
 * @returns How many passages the index holds.
 * @throws {@link HindsearchError} `INVALID_DATA` if the folder is no complete index of this format.
 */
export async function readManifest(folder: string): Promise<number> {
  let manifest: unknown;
  try {
    manifest = JSON.parse(await readFile(join(folder, MANIFEST), "utf8"));
  } catch (cause) {
    throw new HindsearchError(
      "INVALID_DATA",
      `${folder} is not a search index: there is no readable ${MANIFEST} in it. LanceRetriever.build makes one.`,
      { cause },
    );
  }
  const { format, passages } = (manifest ?? {}) as Record<string, unknown>;
  if (format !== FORMAT || typeof passages !== "number") {
    throw new HindsearchError(
      "INVALID_DATA",
      `${folder} holds an index of format ${String(format)}; this version reads format ${FORMAT}. Build it again.`,
    );
  }
  return passages;
}
