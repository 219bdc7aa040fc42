import type { Connection, Table } from "@lancedb/lancedb";
import { z } from "zod";
import { HindsearchError } from "../../errors.js";
import { innerProduct } from "../embedding/embedding-model.js";

/** Names inside an index, shared by the builder and the reader. */
export const TABLE = "passages";
export const TEXT = { column: "contents", index: "contents_idx" } as const;
export const VECTOR = { column: "vector", index: "vector_idx" } as const;

/** The table of notes. It lies beside the passages, and not in a file, so that an object store can hold it too. */
const NOTES = "hindsearch";
const FORMAT = 2;

/** Of the vectors of one text, relative: bfloat16 on another machine gives some 0.01. */
const LARGEST_DIFFERENCE = 0.1;

/** How the words of a text are told apart. */
export type IndexAnalyzer = "plain" | "english";

/** What must be the same for a build to go on, beside the corpus. */
export interface IndexSettings {
  /** How words are told apart. */
  analyzer: IndexAnalyzer;
  /** The model of the vectors; `null` if there are none. */
  embedding: {
    /** Its name. */
    model: string;
    /** Length of its vectors. */
    dimensions: number;
    /** Its vector of a test sentence, by which it is recognised: base64 of float32, little-endian. */
    probe: string;
  } | null;
}

/** What a complete index says about itself. */
export interface IndexManifest extends IndexSettings {
  /** How many it holds. */
  passages: number;
  /** What {@link corpusChecksum} gives for its corpus. */
  checksum: string;
  /** `null` if there are no vectors, or so few that every one is compared. */
  vectorIndex: {
    /** Into which the vectors are divided. */
    partitions: number;
    /** Of the partitions, those that a query looks into by default. */
    probes: number;
    /**
     * Measured at the build: share of the exact 10 nearest passages that are found, with up to 200 passages of the
     * index as queries.
     */
    recall: number;
  } | null;
}

const Settings = z.strictObject({
  analyzer: z.enum(["plain", "english"]),
  embedding: z.strictObject({ model: z.string(), dimensions: z.int().min(1), probe: z.string() }).nullable(),
}) satisfies z.ZodType<IndexSettings>;

const Manifest = z.strictObject({
  ...Settings.shape,
  passages: z.int().min(1),
  checksum: z.string(),
  vectorIndex: z
    .strictObject({ partitions: z.int().min(1), probes: z.int().min(1), recall: z.number() })
    .nullable(),
}) satisfies z.ZodType<IndexManifest>;

/** A text that tells models apart: the same model always gives nearly the same vector for it. */
export const PROBE =
  "Which river flows through the capital of the country that hosted the 1992 Summer Olympics?";

/** How an index remembers its model. */
export function embeddingNote(model: string, probe: Float32Array): NonNullable<IndexSettings["embedding"]> {
  const bytes = Buffer.from(probe.buffer, probe.byteOffset, probe.byteLength);
  return { model, dimensions: probe.length, probe: bytes.toString("base64") };
}

/** Whether two models are one. Its vectors may differ a little: servers compute in half precision and in batches. */
export function sameEmbedding(x: IndexSettings["embedding"], y: IndexSettings["embedding"]): boolean {
  if (x === null || y === null) return x === y;
  if (x.model !== y.model || x.dimensions !== y.dimensions) return false;
  const [p, q] = [probeVector(x.probe), probeVector(y.probe)];
  if (p.length !== q.length) return false;
  const difference = p.map((value, i) => value - (q[i] as number));
  const size = Math.max(innerProduct(p, p), innerProduct(q, q));
  return innerProduct(difference, difference) <= LARGEST_DIFFERENCE ** 2 * size;
}

function probeVector(base64: string): Float32Array {
  // Copied: the bytes of a small buffer begin anywhere in a larger one.
  const bytes = Uint8Array.from(Buffer.from(base64, "base64"));
  return new Float32Array(bytes.buffer, 0, Math.floor(bytes.length / 4));
}

const Batch = z.strictObject({ rows: z.int().min(1), checksum: z.string() });

/**
 * A table of an index, if it exists. Found out by opening it: not every object store lists tables that it has.
 *
 * @throws What the engine throws for any other reason.
 */
export async function openIfThere(database: Connection, name: string): Promise<Table | undefined> {
  try {
    return await database.openTable(name);
  } catch (error) {
    if (/not found/i.test((error as Error).message)) return undefined;
    throw error;
  }
}

/** A note, written in this order: the settings, the batches, the manifest. */
const Note = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("settings"), format: z.int(), value: Settings }),
  /** Written before the batch is added, so that what is in the table is always known. */
  z.strictObject({ kind: z.literal("batch"), value: Batch }),
  z.strictObject({ kind: z.literal("complete"), value: Manifest }),
]);
type Note = z.output<typeof Note>;

/** The notes of a build: how far it is, and of what. */
export class IndexNotes {
  readonly #database: Connection;
  readonly #where: string;
  #table: Table | undefined;
  #count = 0;
  #settings: IndexSettings | undefined;
  #manifest: IndexManifest | undefined;
  /** Checksum of the passages up to the end of each batch. */
  readonly #batches = new Map<number, string>();

  private constructor(database: Connection, where: string) {
    this.#database = database;
    this.#where = where;
  }

  /**
   * @param where - The index, for messages.
   * @throws {@link HindsearchError} `INDEX_MISMATCH` for another format, `INVALID_DATA` for damaged notes.
   */
  static async open(database: Connection, where: string): Promise<IndexNotes> {
    const notes = new IndexNotes(database, where);
    notes.#table = await openIfThere(database, NOTES);
    if (notes.#table === undefined) return notes;
    const rows: { number: number; note: string }[] = await notes.#table.query().toArray();
    for (const { note } of rows.sort((x, y) => x.number - y.number)) notes.#take(note);
    return notes;
  }

  get settings(): IndexSettings | undefined {
    return this.#settings;
  }

  get manifest(): IndexManifest | undefined {
    return this.#manifest;
  }

  /** Checksum of the first `rows` passages; `undefined` if no batch ended there. */
  prefix(rows: number): string | undefined {
    return this.#batches.get(rows);
  }

  /** Begins a build; earlier notes, of a build that wrote nothing, are dropped. */
  async begin(value: IndexSettings): Promise<void> {
    if (this.#table !== undefined) {
      this.#table.close();
      this.#table = undefined;
      await this.#database.dropTable(NOTES);
      this.#batches.clear();
      this.#count = 0;
    }
    await this.#write({ kind: "settings", format: FORMAT, value });
  }

  async batch(rows: number, checksum: string): Promise<void> {
    if (this.#batches.get(rows) !== checksum) await this.#write({ kind: "batch", value: { rows, checksum } });
  }

  async complete(value: IndexManifest): Promise<void> {
    await this.#write({ kind: "complete", value });
  }

  close(): void {
    this.#table?.close();
  }

  async #write(note: Note): Promise<void> {
    const text = JSON.stringify(note);
    const rows = [{ number: this.#count, note: text }];
    if (this.#table === undefined) this.#table = await this.#database.createTable(NOTES, rows);
    else await this.#table.add(rows);
    this.#take(text);
  }

  #take(text: string): void {
    this.#count++;
    const note = this.#parse(text);
    if (note.kind === "settings") this.#settings = note.value;
    else if (note.kind === "complete") this.#manifest = note.value;
    else this.#batches.set(note.value.rows, note.value.checksum);
  }

  #parse(text: string): Note {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      throw this.#damaged(cause);
    }
    const { format } = (value ?? {}) as { format?: unknown };
    if (typeof format === "number" && format !== FORMAT) {
      const [age, remedy] =
        format > FORMAT ? ["a newer", "Update hindsearch"] : ["an older", "Build the index again"];
      throw new HindsearchError(
        "INDEX_MISMATCH",
        `${this.#where} holds an index of format ${format}, made by ${age} version; this one reads format ${FORMAT}. ${remedy}.`,
      );
    }
    const parsed = Note.safeParse(value);
    if (!parsed.success) throw this.#damaged(parsed.error);
    return parsed.data;
  }

  #damaged(cause: unknown): HindsearchError {
    const message = `${this.#where} is damaged: its notes cannot be read. Delete it and build it again.`;
    return new HindsearchError("INVALID_DATA", message, { cause });
  }
}
