import { crc32c, type TensorBoardEvent } from "../../../lib/runs/sinks/event-file.js";

/** Reads an event file as TensorBoard does, checksums included; knows the fields that scalars need and refuses others. */
export function readEvents(file: Buffer): { events: TensorBoardEvent[]; records: Buffer[] } {
  const events: TensorBoardEvent[] = [];
  const records: Buffer[] = [];
  for (let at = 0; at < file.length; ) {
    const length = Number(file.readBigUInt64LE(at));
    const message = file.subarray(at + 12, at + 12 + length);
    if (unmask(file.readUInt32LE(at + 8)) !== crc32c(file.subarray(at, at + 8))) throw new Error("length");
    if (unmask(file.readUInt32LE(at + 12 + length)) !== crc32c(message)) throw new Error("message");
    records.push(file.subarray(at, at + length + 16));
    events.push(eventOf(message));
    at += length + 16;
  }
  return { events, records };
}

function unmask(masked: number): number {
  const rotated = (masked - 0xa282ead8) >>> 0;
  return ((rotated << 15) | (rotated >>> 17)) >>> 0;
}

function eventOf(message: Buffer): TensorBoardEvent {
  const event: TensorBoardEvent = { wallTime: Number.NaN };
  for (const [field, value] of fields(message)) {
    if (field === 1) event.wallTime = (value as Buffer).readDoubleLE();
    else if (field === 2) event.step = Number(value);
    else if (field === 3) event.fileVersion = String(value);
    else if (field === 5)
      event.scalars = [...fields(value as Buffer)].map(([, scalar]) => scalarOf(scalar as Buffer));
    else if (field === 7) event.sessionStart = [...fields(value as Buffer)].join() === "1,1";
    else throw new Error(`field ${field}`);
  }
  return event;
}

function scalarOf(message: Buffer) {
  const [[tagField, tag], [valueField, value]] = [...fields(message)] as [[number, Buffer], [number, Buffer]];
  if (tagField !== 1 || valueField !== 2) throw new Error("scalar");
  return { tag: String(tag), value: value.readFloatLE() };
}

function* fields(message: Buffer): Generator<[number, Buffer | number]> {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = message[at++] as number;
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return value;
    }
  };
  const take = (length: number) => {
    at += length;
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const key = varint();
    const type = key & 7;
    if (type === 0) yield [key >> 3, varint()];
    else yield [key >> 3, take(type === 1 ? 8 : type === 5 ? 4 : varint())];
  }
}
