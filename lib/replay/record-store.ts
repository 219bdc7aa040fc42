import { createHash, randomUUID } from "node:crypto";
import { link, open, readFile, rename, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { HindsearchError } from "../errors.js";
import { makeFolder } from "../make-folder.js";

/** What a record answers: all parts that the answer depends on. */
export type RecordKey = readonly unknown[];

const Entry = z.strictObject({
  version: z.literal(1),
  kind: z.string(),
  run: z.string().exactOptional(),
  value: z.unknown(),
});

/** What was recorded. */
export interface Recorded {
  /** JSON. */
  value: unknown;
  /** The run that recorded it; absent in records of before there were names. */
  run?: string;
}

/**
 * Records as plain files, one per key: `<folder>/<kind>/ab/cdef….json`, named by a hash of the key.
 *
 * A record is written beside its place and linked into it, which the file system does at once or not at all, also on a
 * network file system: many processes may write to one folder, none ever reads half a record, and the first writer of a
 * key wins. What a power failure left unreadable counts as missing and is replaced.
 */
export class RecordStore {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * @returns The value, or `undefined` if there is no record.
   * @throws {@link HindsearchError} `IO` if the folder cannot be read.
   */
  async read(kind: string, key: RecordKey): Promise<Recorded | undefined> {
    const path = this.#path(kind, key);
    let text: string;
    try {
      text = await readFile(path, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw ioError("read", path, error);
    }
    const entry = parseEntry(text);
    return entry?.kind === kind ? entry : undefined;
  }

  /**
   * Records a value, which must be JSON.
   *
   * @param replace - Whether a record that is there is replaced; otherwise that one stays.
   * @returns The value that the record has now, as it will be read.
   * @throws {@link HindsearchError} `IO` if it cannot be written.
   */
  async write(kind: string, key: RecordKey, { run, value }: Recorded, replace: boolean): Promise<unknown> {
    const path = this.#path(kind, key);
    const text = `${JSON.stringify({ version: 1, kind, run, value })}\n`;
    const partial = `${path}.${randomUUID()}.partial`;
    try {
      await makeFolder(dirname(path));
      await writeWhole(partial, text);
      if (replace) await rename(partial, path);
      else await this.#place(partial, path);
    } catch (error) {
      await unlink(partial).catch(() => undefined);
      throw ioError("write", path, error);
    }
    return ((await this.read(kind, key)) ?? { value: JSON.parse(text).value }).value;
  }

  /** Links the record into its place, unless there is a whole one. */
  async #place(partial: string, path: string): Promise<void> {
    try {
      await link(partial, path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      if (parseEntry(await readFile(path, "utf8")) === undefined) return rename(partial, path);
    }
    await unlink(partial);
  }

  #path(kind: string, key: RecordKey): string {
    const hash = createHash("sha256").update(canonicalJson(key)).digest("hex");
    return join(this.#folder, kind, hash.slice(0, 2), `${hash.slice(2)}.json`);
  }
}

async function writeWhole(path: string, text: string): Promise<void> {
  await using file = await open(path, "wx");
  await file.writeFile(text);
  // Before the name exists, so that after a power failure there is no name without contents.
  await file.datasync();
}

function parseEntry(text: string): z.output<typeof Entry> | undefined {
  try {
    return Entry.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** JSON with the keys of objects in order, so that equal values have equal texts. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

function ioError(what: string, path: string, cause: unknown): HindsearchError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new HindsearchError("IO", `Cannot ${what} the record ${path}: ${reason}.`, { cause });
}
