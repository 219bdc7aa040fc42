import { closeSync, fstatSync, openSync, readSync } from "node:fs";

/**
 * Whether a file is a shared object of Linux that ends before its section headers, as an interrupted copy does. The
 * system maps such a file without complaint, and the process ends when it reads behind the end.
 */
export function isCutOff(path: string): boolean {
  const file = openSync(path, "r");
  try {
    const header = Buffer.alloc(64);
    const read = readSync(file, header, 0, header.length, 0);
    const isElf64 = read === header.length && header.subarray(0, 6).equals(ELF64_LITTLE_ENDIAN);
    if (!isElf64) return false;
    const end = header.readBigUInt64LE(0x28) + BigInt(header.readUInt16LE(0x3a) * header.readUInt16LE(0x3c));
    return end > fstatSync(file).size;
  } finally {
    closeSync(file);
  }
}

const ELF64_LITTLE_ENDIAN = Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1]);
