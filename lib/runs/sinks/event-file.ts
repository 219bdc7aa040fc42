/**
 * TensorBoard's event files: TFRecord framing around `Event` messages of tensorflow/core/util/event.proto. Only the
 * fields that scalars need.
 */

/** One message of an event file. @internal */
export interface TensorBoardEvent {
  /** Seconds since 1970. */
  wallTime: number;
  /** Absent and 0 are the same. */
  step?: number;
  /** Of the first message of a file. */
  fileVersion?: string;
  /** A session begins: readers drop what they have of this step and later. */
  sessionStart?: boolean;
  /** Scalars, as float32. */
  scalars?: readonly { tag: string; value: number }[];
}

/** Version that TensorBoard needs to honour a session's start. @internal */
export const FILE_VERSION = "brain.Event:2";

/**
 * An event as a record: length, masked CRC of the length, message, masked CRC of the message, all little-endian.
 *
 * @internal
 */
export function encodeRecord(event: TensorBoardEvent): Buffer {
  const message = encodeEvent(event);
  const record = Buffer.alloc(message.length + 16);
  record.writeBigUInt64LE(BigInt(message.length), 0);
  record.writeUInt32LE(maskedCrc32c(record.subarray(0, 8)), 8);
  message.copy(record, 12);
  record.writeUInt32LE(maskedCrc32c(message), 12 + message.length);
  return record;
}

function encodeEvent({ wallTime, step = 0, fileVersion, sessionStart, scalars }: TensorBoardEvent): Buffer {
  const parts = [fixed64(1, wallTime)];
  // Protocol buffers leave out a field with its default value.
  if (step !== 0) parts.push(varintField(2, step));
  if (fileVersion !== undefined) parts.push(bytesField(3, Buffer.from(fileVersion)));
  if (scalars !== undefined) parts.push(bytesField(5, Buffer.concat(scalars.map(encodeValue))));
  if (sessionStart) parts.push(bytesField(7, varintField(1, 1)));
  return Buffer.concat(parts);
}

function encodeValue({ tag, value }: { tag: string; value: number }): Buffer {
  return bytesField(1, Buffer.concat([bytesField(1, Buffer.from(tag)), fixed32(2, value)]));
}

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = BigInt(value);
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

const key = (field: number, type: number) => varint((field << 3) | type);
const varintField = (field: number, value: number) => Buffer.concat([key(field, VARINT), varint(value)]);
const bytesField = (field: number, bytes: Buffer) =>
  Buffer.concat([key(field, BYTES), varint(bytes.length), bytes]);

function fixed64(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return Buffer.concat([key(field, FIXED64), bytes]);
}

function fixed32(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([key(field, FIXED32), bytes]);
}

/** CRC-32C (Castagnoli), reflected. */
const POLYNOMIAL = 0x82f63b78;
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ POLYNOMIAL : rest >>> 1;
  return rest;
});

/**
 * CRC-32C of some bytes.
 *
 * @internal
 */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (TABLE[(crc ^ byte) & 0xff] as number) ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

/** A CRC over data that holds CRCs would be weak; TFRecord rotates it and adds a constant. */
function maskedCrc32c(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}
