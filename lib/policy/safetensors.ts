import { isUtf8 } from "node:buffer";
import { HindsearchError } from "../errors.js";
import type { StorageType } from "../native/model.js";
import { isJsonObject, openRegularFile, parseJsonObject, readExactly } from "./json-file.js";

/** Bytes of one element, for the types whose elements are whole bytes. */
const ELEMENT_BYTES: ReadonlyMap<string, number> = new Map([
  ["BOOL", 1],
  ["U8", 1],
  ["I8", 1],
  ["F8_E4M3", 1],
  ["F8_E5M2", 1],
  ["F8_E8M0", 1],
  ["U16", 2],
  ["I16", 2],
  ["F16", 2],
  ["BF16", 2],
  ["U32", 4],
  ["I32", 4],
  ["F32", 4],
  ["U64", 8],
  ["I64", 8],
  ["F64", 8],
  ["C64", 8],
]);

const DTYPES: Readonly<Record<StorageType, string>> = { f32: "F32", f16: "F16", bf16: "BF16" };

const MAX_HEADER_BYTES = 100_000_000;
const MAX_TENSORS = 100_000;
const LENGTH_BYTES = 8;

/** One tensor of a safetensors file. */
export interface TensorEntry {
  /** As the file names it, e.g. `F32` or `I64`. */
  dtype: string;
  /** Row-major; empty for a scalar. */
  shape: number[];
  /** First byte, from the start of the data section. */
  begin: number;
  /** One past the last byte. */
  end: number;
}

/** What the header of a safetensors file says. */
export interface SafetensorsHeader {
  /** Free texts; empty if there are none. */
  metadata: Record<string, string>;
  /** By name, in the order of their bytes. */
  tensors: Map<string, TensorEntry>;
  /** Where the data section starts, in bytes from the start of the file. */
  dataOffset: number;
}

/** A tensor to be written. */
export interface TensorToWrite {
  /** Unique in its file. */
  name: string;
  /** What it is stored as. */
  type: StorageType;
  /** Row-major. */
  shape: readonly number[];
}

/**
 * Reads and checks the header of a safetensors file; no tensor data is read.
 *
 * @param path - An untrusted file.
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT` naming the file and what is wrong, see
 * {@link parseSafetensorsHeader}; `IO`.
 */
export async function readSafetensorsHeader(path: string): Promise<SafetensorsHeader> {
  const { file, size } = await openRegularFile(path);
  try {
    const length = await readExactly(file, 0, Math.min(LENGTH_BYTES, size), path);
    if (size < LENGTH_BYTES) throw invalid(path, `${size} bytes are too few for a safetensors file`);
    const headerBytes = length.readBigUInt64LE();
    const most = Math.min(MAX_HEADER_BYTES, size - LENGTH_BYTES);
    if (headerBytes > most) {
      throw invalid(
        path,
        `the header claims ${headerBytes} bytes; at most ${most} are possible in this file`,
      );
    }
    const header = await readExactly(file, LENGTH_BYTES, Number(headerBytes), path);
    return parseSafetensorsHeader(header, size - LENGTH_BYTES - header.length, path);
  } finally {
    await file.close();
  }
}

/**
 * Checks the header of a safetensors file.
 *
 * Refused are: a header over 100 MB, that is not a UTF-8 JSON object, or with a key twice (`JSON.parse` would take the
 * last one silently); more than 100,000 tensors; unknown types; shapes and offsets that are no exact integers; sizes that
 * are not shape times type; offsets out of order, out of the file, with a hole or an overlap; metadata other than texts.
 *
 * @param header - The bytes after the length.
 * @param dataBytes - Size of the data section behind it.
 * @param place - Named in messages.
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT`.
 */
export function parseSafetensorsHeader(
  header: Uint8Array,
  dataBytes: number,
  place: string,
): SafetensorsHeader {
  if (header.length > MAX_HEADER_BYTES) throw invalid(place, `the header is over ${MAX_HEADER_BYTES} bytes`);
  if (header[0] !== 0x7b || !isUtf8(header)) throw invalid(place, "the header is not a UTF-8 JSON object");
  const text = Buffer.from(header.buffer, header.byteOffset, header.length).toString("utf8");
  const { __metadata__: metadata = {}, ...rest } = parseJsonObject(text, `${place}: the header`);
  const duplicate = findDuplicateKey(text);
  if (duplicate !== undefined) throw invalid(place, `the header has the key ${duplicate} twice`);
  if (!isJsonObject(metadata) || Object.values(metadata).some((value) => typeof value !== "string")) {
    throw invalid(place, "__metadata__ must map names to texts");
  }
  const entries = Object.entries(rest);
  if (entries.length > MAX_TENSORS) throw invalid(place, `${entries.length} tensors; at most ${MAX_TENSORS}`);
  const tensors = entries.map(([name, value]): [string, TensorEntry] => [
    name,
    parseEntry(value, `${place}: tensor ${name}`),
  ]);
  tensors.sort(([, a], [, b]) => a.begin - b.begin || a.end - b.end);
  checkCover(tensors, dataBytes, place);
  return {
    metadata: metadata as Record<string, string>,
    tensors: new Map(tensors),
    dataOffset: LENGTH_BYTES + header.length,
  };
}

function parseEntry(value: unknown, place: string): TensorEntry {
  if (!isJsonObject(value)) throw invalid(place, "must be an object");
  const { dtype, shape, data_offsets: offsets } = value;
  const size = typeof dtype === "string" ? ELEMENT_BYTES.get(dtype) : undefined;
  if (typeof dtype !== "string" || size === undefined) {
    throw invalid(place, `unknown dtype; known are ${[...ELEMENT_BYTES.keys()].join(", ")}`);
  }
  if (!Array.isArray(shape) || !shape.every(isSize)) throw invalid(place, "shape must be a list of sizes");
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isSize)) {
    throw invalid(place, "data_offsets must be two byte offsets");
  }
  const [begin, end] = offsets as [number, number];
  let bytes = size;
  for (const length of shape) bytes *= length;
  // A product beyond 2^53 is inexact, but then also larger than any difference of two exact offsets.
  if (end < begin || end - begin !== bytes) {
    throw invalid(place, `data_offsets [${begin}, ${end}] do not hold [${shape.join(", ")}] of ${dtype}`);
  }
  return { dtype, shape, begin, end };
}

function checkCover(tensors: readonly [string, TensorEntry][], dataBytes: number, place: string): void {
  let at = 0;
  for (const [name, { begin, end }] of tensors) {
    if (begin !== at) {
      const what = begin < at ? "overlaps the tensor before it" : "leaves a hole before it";
      throw invalid(place, `tensor ${name} starts at byte ${begin} and ${what}, which ends at ${at}`);
    }
    at = end;
  }
  if (at !== dataBytes) {
    throw invalid(place, `the tensors end at byte ${at}, the data at ${dataBytes}; is the file incomplete?`);
  }
}

/** The first key, as written, that an object of valid JSON text holds twice. */
function findDuplicateKey(text: string): string | undefined {
  const objects: Set<string>[] = [];
  let lastString = "";
  for (let i = 0; i < text.length; i++) {
    switch (text[i]) {
      case '"': {
        const start = i++;
        while (text[i] !== '"') i += text[i] === "\\" ? 2 : 1;
        lastString = text.slice(start, i + 1);
        break;
      }
      case ":": {
        // Parsed, because one key can be written in several ways.
        const key: string = JSON.parse(lastString);
        const keys = objects.at(-1);
        if (keys?.has(key)) return lastString;
        keys?.add(key);
        break;
      }
      case "{":
        objects.push(new Set());
        break;
      case "}":
        objects.pop();
        break;
    }
  }
  return undefined;
}

/**
 * The JSON of a header for tensors that are written one after the other in the order given, padded with spaces so that
 * the data starts at a multiple of 8 bytes. The length that stands before it in a file is not part of it.
 *
 * @param tensors - Names unique, sizes not negative.
 * @param metadata - Default `{ format: "pt" }`, which transformers asks for.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` for a name that is there twice or reserved, or a size out of range.
 */
export function buildSafetensorsHeader(
  tensors: readonly TensorToWrite[],
  metadata: Readonly<Record<string, string>> = { format: "pt" },
): Uint8Array {
  const entries: [string, unknown][] = [["__metadata__", metadata]];
  const names = new Set(["__metadata__"]);
  let at = 0;
  for (const { name, type, shape } of tensors) {
    if (names.has(name)) throw new HindsearchError("INVALID_ARGUMENT", `Tensor name ${name} is taken.`);
    names.add(name);
    const dtype = DTYPES[type];
    const begin = at;
    at += shape.reduce((product, length) => product * length, ELEMENT_BYTES.get(dtype) as number);
    if (!shape.every(isSize) || !Number.isSafeInteger(at)) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `Tensor ${name} cannot have the shape [${shape.join(", ")}].`,
      );
    }
    entries.push([name, { dtype, shape, data_offsets: [begin, at] }]);
  }
  const json = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  return Buffer.concat([
    json,
    Buffer.alloc((LENGTH_BYTES - (json.length % LENGTH_BYTES)) % LENGTH_BYTES, " "),
  ]);
}

/** The engine's name of a dtype; `undefined` for one that no weight can have. @internal */
export function storageTypeOf(dtype: string): StorageType | undefined {
  return (Object.keys(DTYPES) as StorageType[]).find((type) => DTYPES[type] === dtype);
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function invalid(place: string, what: string): HindsearchError {
  return new HindsearchError("INVALID_CHECKPOINT", `${place}: ${what}.`);
}
