import { type FileHandle, open } from "node:fs/promises";
import type { Compressors, FileMetaData, RowGroup } from "hyparquet";
import { HindsearchError } from "../../errors.js";
import { loadOptional } from "../../optional-package.js";
import type { Passage } from "../passage.js";
import type { ParquetLimits } from "./parquet-messages.js";
import { passageOfRow } from "./row.js";

/** What is read of a file: nothing else is decompressed. */
const COLUMNS = ["id", "contents", "title", "text"];
/** Of one page; writers make them of a megabyte or so. */
const MAX_PAGE_BYTES = 2 ** 28;
/** Of the columns of one row group, which is read at once; writers make row groups of 64 MiB to 1 GiB. */
const MAX_GROUP_BYTES = 2 ** 31;
const MAX_FOOTER_BYTES = 2 ** 26;

/**
 * The passages of a Parquet file. To be run where it may be ended from outside: a damaged file can make the decoder
 * loop for ever.
 *
 * @throws {@link HindsearchError} `INVALID_DATA`, `IO`, `DEPENDENCY_MISSING`.
 */
export async function* parquetRows(
  path: string,
  { maxLineBytes = 2 ** 19, maxBytes = 64 * 2 ** 30 }: ParquetLimits,
): AsyncGenerator<Passage, void> {
  const { hyparquet, compressors } = await loadParquet();
  const damaged = (problem: string, cause?: unknown) =>
    new HindsearchError("INVALID_DATA", `${path}: ${problem}.`, { cause });
  const budget = { left: maxBytes };
  let row = 0;
  await using handle = await openFile(path);
  const file = await asyncBuffer(handle);
  try {
    const metadata = await hyparquet.parquetMetadataAsync(await checkedFooter(file, damaged));
    const columns = COLUMNS.filter((name) => metadata.schema.some((element) => element.name === name));
    for (const group of metadata.row_groups) {
      checkGroup(group, columns, damaged);
      const rows = await hyparquet.parquetReadObjects({
        file,
        metadata,
        columns,
        rowStart: row,
        rowEnd: row + Number(group.num_rows),
        compressors: capped(compressors, budget, damaged),
      });
      for (const value of rows) {
        yield passageOfRow(checkedRow(value, maxLineBytes, row, damaged), (problem) =>
          damaged(`row ${row}: ${problem}; expected the columns id and contents, or id, title and text`),
        );
        row++;
      }
    }
    checkRows(row, metadata, damaged);
  } catch (cause) {
    if (cause instanceof HindsearchError) throw cause;
    throw damaged(`not a readable Parquet file at row ${row}: ${(cause as Error).message}`, cause);
  }
}

type Damaged = (problem: string, cause?: unknown) => HindsearchError;

async function loadParquet() {
  const packages = ["hyparquet@1.33.0", "hyparquet-compressors@1.1.2"];
  return loadOptional("Parquet as a corpus", packages, async () => {
    const { compressors, decompressZstd } = await import("hyparquet-compressors");
    // The package's own entry lets the data say how long they become.
    const ZSTD = (input: Uint8Array, length: number) => decompressZstd(input, new Uint8Array(length));
    return { hyparquet: await import("hyparquet"), compressors: { ...compressors, ZSTD } };
  });
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    return await open(path);
  } catch (cause) {
    throw new HindsearchError("IO", `Cannot read ${path}: ${(cause as Error).message}.`, { cause });
  }
}

interface FileSlices {
  byteLength: number;
  slice(start: number, end?: number): Promise<ArrayBuffer>;
}

/** The file as the package wants it; slices outside of it, which a damaged file asks for, are refused. */
async function asyncBuffer(handle: FileHandle): Promise<FileSlices> {
  const { size } = await handle.stat();
  return {
    byteLength: size,
    async slice(start, end = size) {
      if (!(start >= 0 && start <= end && end <= size))
        throw new Error(`bytes ${start} to ${end} of ${size}`);
      const buffer = new ArrayBuffer(end - start);
      for (let done = 0; done < buffer.byteLength; ) {
        const { bytesRead } = await handle.read(
          new Uint8Array(buffer, done),
          0,
          buffer.byteLength - done,
          start + done,
        );
        if (bytesRead === 0) throw new Error("the file became shorter");
        done += bytesRead;
      }
      return buffer;
    },
  };
}

async function checkedFooter(file: FileSlices, damaged: Damaged): Promise<FileSlices> {
  const end = new DataView(await file.slice(Math.max(0, file.byteLength - 8)));
  const length = end.byteLength === 8 ? end.getUint32(0, true) : 0;
  if (length === 0 || length > Math.min(MAX_FOOTER_BYTES, file.byteLength - 8)) {
    throw damaged(`the footer is said to have ${length} bytes, of ${file.byteLength} in the file`);
  }
  return file;
}

function checkGroup(group: RowGroup, columns: readonly string[], damaged: Damaged): void {
  let bytes = 0;
  for (const { meta_data } of group.columns) {
    const name = meta_data?.path_in_schema[0];
    if (name !== undefined && columns.includes(name)) bytes += Number(meta_data?.total_uncompressed_size);
  }
  if (bytes <= MAX_GROUP_BYTES) return;
  throw damaged(
    `a row group has ${bytes} bytes, expected at most ${MAX_GROUP_BYTES}; write smaller row groups`,
  );
}

/** Says no before a page is decompressed: a header may promise any length. */
function capped(compressors: Compressors, budget: { left: number }, damaged: Damaged): Compressors {
  return Object.fromEntries(
    Object.entries(compressors).map(([codec, decompress]) => [
      codec,
      (input: Uint8Array, length: number) => {
        budget.left -= length;
        if (length > MAX_PAGE_BYTES || budget.left < 0) {
          throw damaged(
            `a page of ${length} bytes is over the limit; raise maxBytes if the file is meant to be that large`,
          );
        }
        return decompress(input, length);
      },
    ]),
  );
}

function checkedRow(
  value: Record<string, unknown>,
  maxBytes: number,
  row: number,
  damaged: Damaged,
): unknown {
  for (const [name, field] of Object.entries(value)) {
    if (typeof field !== "string" || field.length * 3 <= maxBytes || Buffer.byteLength(field) <= maxBytes)
      continue;
    throw damaged(
      `row ${row}: ${name} is longer than ${maxBytes} bytes; raise maxLineBytes if that is intended`,
    );
  }
  return value;
}

function checkRows(read: number, { num_rows }: FileMetaData, damaged: Damaged): void {
  if (read !== Number(num_rows)) throw damaged(`holds ${read} rows, but its footer says ${num_rows}`);
}
