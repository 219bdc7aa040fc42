import type { Connection, Table } from "@lancedb/lancedb";
import type { Table as ArrowTable } from "apache-arrow";
import { HindsearchError } from "../../errors.js";
import { CorpusDigest } from "../checksum.js";
import { formatContents, type Passage } from "../passage.js";
import { IdSet } from "./id-set.js";
import type { LancePackage } from "./lance-package.js";
import {
  type IndexManifest,
  IndexNotes,
  type IndexSettings,
  openIfThere,
  sameEmbedding,
  TABLE,
  TEXT,
  VECTOR,
} from "./manifest.js";
import type { BuildRequest } from "./messages.js";
import { buildVectorIndex } from "./vector-index.js";

/** A batch ends where it is full by either count: the same places in every build of a corpus. */
const BATCH_ROWS = 20_000;
const BATCH_CHARACTERS = 1 << 25;
/** With vectors, which may come from a paid service: what a killed build has to ask for again. */
const BATCH_ROWS_EMBEDDED = 2048;

interface Row {
  id: string;
  contents: string;
}

interface WriterParts {
  lance: LancePackage;
  arrow: typeof import("apache-arrow");
  /** The vectors of passages, one after the other. */
  embed: (texts: string[]) => Promise<Float32Array>;
  request: BuildRequest;
}

/**
 * Writes passages into the table of an index, and goes on where an earlier build stopped.
 *
 * Every batch is announced in the notes with the checksum of all passages up to its end, then added in one commit. So
 * the number of rows in the table says which announced batch was the last one, and its checksum says whether the
 * corpus still begins with the same passages. Those are read again, but neither embedded nor written.
 */
export class TableWriter {
  /** Passages read so far. */
  passages = 0;
  /** Whether all of them are written. */
  indexing = false;
  readonly #database: Connection;
  readonly #parts: WriterParts;
  readonly #notes: IndexNotes;
  readonly #digest = new CorpusDigest();
  readonly #ids = new IdSet();
  #table: Table | undefined;
  /** Rows that the table has. */
  #written: number;
  #batch: Row[] = [];
  #characters = 0;

  private constructor(
    database: Connection,
    parts: WriterParts,
    notes: IndexNotes,
    table: Table | undefined,
    written: number,
  ) {
    this.#database = database;
    this.#parts = parts;
    this.#notes = notes;
    this.#table = table;
    this.#written = written;
  }

  /** @throws {@link HindsearchError} `INDEX_MISMATCH` if what is there was begun with other settings. */
  static async open(database: Connection, parts: WriterParts): Promise<TableWriter> {
    const { uri, settings } = parts.request;
    const notes = await IndexNotes.open(database, uri);
    const table = await openIfThere(database, TABLE);
    const written = (await table?.countRows()) ?? 0;
    const fits = notes.settings !== undefined && sameSettings(notes.settings, settings);
    if (written > 0 && !fits) throw mismatch(uri, "with other settings");
    if (!fits) await notes.begin(settings);
    return new TableWriter(database, parts, notes, table, written);
  }

  async add(passage: Passage): Promise<void> {
    const row = { id: passage.id, contents: formatContents(passage) };
    const { uri } = this.#parts.request;
    if (!this.#ids.add(row.id)) {
      throw new HindsearchError(
        "INVALID_DATA",
        `Passage ${this.passages}, counted from 0, has the id ${JSON.stringify(row.id)} of an earlier one; ids must be distinct.`,
      );
    }
    this.#digest.add(row);
    this.passages++;
    if (this.passages <= this.#written) {
      if (this.passages === this.#written && this.#digest.value() !== this.#notes.prefix(this.#written)) {
        throw mismatch(uri, "from another corpus");
      }
      return;
    }
    if (this.#notes.manifest !== undefined) throw mismatch(uri, "from another corpus");
    this.#batch.push(row);
    this.#characters += row.contents.length;
    const rows = this.#parts.request.settings.embedding === null ? BATCH_ROWS : BATCH_ROWS_EMBEDDED;
    if (this.#batch.length === rows || this.#characters > BATCH_CHARACTERS) await this.#flush();
  }

  /** Writes the rest and indexes the table. */
  async finish(): Promise<IndexManifest> {
    const { uri, settings } = this.#parts.request;
    if (this.#batch.length > 0) await this.#flush();
    if (this.passages < this.#written) throw mismatch(uri, "from another corpus");
    if (this.#notes.manifest !== undefined) return this.#notes.manifest;
    if (this.#table === undefined) {
      throw new HindsearchError("INVALID_DATA", "The corpus holds no passage; there is nothing to index.");
    }
    this.indexing = true;
    const indexed = (await this.#table.listIndices()).map(({ name }) => name);
    if (!indexed.includes(TEXT.index)) await this.#indexText(this.#table);
    const { embedding } = settings;
    const vectorIndex =
      embedding === null || this.passages < this.#parts.request.exactBelow
        ? null
        : await buildVectorIndex(this.#table, this.#parts.lance, {
            rows: this.passages,
            dimensions: embedding.dimensions,
            exists: indexed.includes(VECTOR.index),
          });
    const rows = await this.#table.countRows();
    if (rows !== this.passages) throw this.#disturbed(rows);
    const manifest = { ...settings, passages: rows, checksum: this.#digest.value(), vectorIndex };
    await this.#notes.complete(manifest);
    return manifest;
  }

  close(): void {
    this.#notes.close();
    this.#table?.close();
  }

  async #flush(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    this.#characters = 0;
    const { settings } = this.#parts.request;
    const dimensions = settings.embedding?.dimensions;
    const vectors =
      dimensions === undefined ? undefined : await this.#parts.embed(batch.map(({ contents }) => contents));
    await this.#notes.batch(this.passages, this.#digest.value());
    const data = this.#arrowTable(batch, vectors, dimensions);
    if (this.#table === undefined) this.#table = await this.#database.createTable(TABLE, data);
    else {
      const rows = await this.#table.countRows();
      if (rows !== this.#written) throw this.#disturbed(rows);
      await this.#table.add(data);
    }
    this.#written = this.passages;
  }

  #arrowTable(rows: Row[], vectors: Float32Array | undefined, dimensions = 0): ArrowTable {
    const { arrow } = this.#parts;
    const texts = (column: keyof Row) =>
      arrow.vectorFromArray(
        rows.map((row) => row[column]),
        new arrow.Utf8(),
      );
    const columns = { id: texts("id"), [TEXT.column]: texts("contents") };
    if (vectors === undefined) return new arrow.Table(columns);
    const type = new arrow.FixedSizeList(dimensions, new arrow.Field("item", new arrow.Float32(), true));
    const child = arrow.makeData({
      type: new arrow.Float32(),
      length: vectors.length,
      nullCount: 0,
      data: vectors,
    });
    const data = arrow.makeData({ type, length: rows.length, nullCount: 0, child });
    return new arrow.Table({ ...columns, [VECTOR.column]: new arrow.Vector([data]) });
  }

  async #indexText(table: Table): Promise<void> {
    const english = this.#parts.request.settings.analyzer === "english";
    await table.createIndex(TEXT.column, {
      config: this.#parts.lance.Index.fts({
        baseTokenizer: "simple",
        language: "English",
        lowercase: true,
        stem: english,
        removeStopWords: english,
        asciiFolding: false,
        withPosition: false,
      }),
    });
  }

  #disturbed(rows: number): HindsearchError {
    return new HindsearchError(
      "INVALID_DATA",
      `${this.#parts.request.uri} has ${rows} passages where this build wrote ${this.#written}: another process writes there. ` +
        "End it, delete the folder and build again.",
    );
  }
}

function sameSettings(x: IndexSettings, y: IndexSettings): boolean {
  return x.analyzer === y.analyzer && sameEmbedding(x.embedding, y.embedding);
}

function mismatch(uri: string, how: string): HindsearchError {
  return new HindsearchError(
    "INDEX_MISMATCH",
    `${uri} holds an index that was built, or begun, ${how}. Delete it, or build somewhere else.`,
  );
}
