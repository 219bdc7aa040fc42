import { createReadStream } from "node:fs";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join, sep } from "node:path";
import { crc32 } from "node:zlib";
import { z } from "zod";
import { syncFolder, syncPath } from "./durable.js";

/** Written last; lists every file, so that a folder that lost one, or a part of one, is not taken for whole. */
const MARKER = "complete.json";

const Seal = z.object({
  version: z.literal(1),
  step: z.int().min(0),
  score: z.number().exactOptional(),
  files: z.record(
    // Nothing outside the folder is ever looked at.
    z.string().regex(/^(?!\.{1,2}(\/|$))[^/\\]+(\/(?!\.{1,2}(\/|$))[^/\\]+)*$/),
    z.object({ bytes: z.int().min(0), crc32: z.string() }),
  ),
});

/** What the marker of a checkpoint says. @internal */
export type Seal = z.output<typeof Seal>;

/**
 * Puts all files of a folder on disk, then a marker with the size and the CRC-32 of each.
 *
 * @internal
 */
export async function seal(folder: string, step: number, score: number | undefined): Promise<void> {
  const files: Seal["files"] = {};
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    await syncPath(path);
    const name = path.slice(folder.length + 1).replaceAll(sep, "/");
    if (!entry.isFile() || name === MARKER) continue;
    files[name] = { bytes: (await stat(path)).size, crc32: await checksum(path) };
  }
  const marker = join(folder, MARKER);
  const contents: Seal = { version: 1, step, ...(score !== undefined && { score }), files };
  await writeFile(marker, `${JSON.stringify(contents, null, 2)}\n`);
  await syncPath(marker);
  await syncFolder(folder);
}

/** What {@link readSeal} finds: a marker, or damage, or both. @internal */
export interface FoundSeal {
  seal?: Seal;
  damage?: string;
}

/**
 * The marker of a checkpoint, and what keeps the folder from being one: no marker, that of another step, a file missing
 * or of another size.
 *
 * @internal
 */
export async function readSeal(folder: string, step: number): Promise<FoundSeal> {
  let marker: unknown;
  try {
    marker = JSON.parse(await readFile(join(folder, MARKER), "utf8"));
  } catch {
    return { damage: `it has no readable ${MARKER}, so it was not written to its end` };
  }
  const parsed = Seal.safeParse(marker);
  if (!parsed.success || parsed.data.step !== step)
    return { damage: `its ${MARKER} is not that of step ${step}` };
  const seal = parsed.data;
  for (const [name, { bytes }] of Object.entries(seal.files)) {
    const found = await stat(join(folder, name)).catch(() => undefined);
    if (found === undefined) return { seal, damage: `its file ${name} is missing` };
    if (found.size !== bytes)
      return { seal, damage: `its file ${name} has ${found.size} bytes instead of ${bytes}` };
  }
  return { seal };
}

/**
 * What is wrong with the contents of a checkpoint whose marker was read; `undefined` if nothing is.
 *
 * @internal
 */
export async function findDamage(folder: string, { files }: Seal): Promise<string | undefined> {
  for (const [name, { crc32: expected }] of Object.entries(files)) {
    const found = await checksum(join(folder, name)).catch((error: Error) => error.message);
    if (found !== expected) return `its file ${name} is damaged: checksum ${found} instead of ${expected}`;
  }
  return undefined;
}

async function checksum(path: string): Promise<string> {
  let sum = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 }))
    sum = crc32(chunk as Buffer, sum);
  return sum.toString(16).padStart(8, "0");
}
