// pgvector and pg_textsearch in a real PostgreSQL 18: PGlite, which is PostgreSQL compiled to WebAssembly, behind its socket.
import { PGlite } from "@electric-sql/pglite";
import { pg_textsearch } from "@electric-sql/pglite-pg_textsearch";
import { vector } from "@electric-sql/pglite-pgvector";
import { PGLiteSocketServer } from "@electric-sql/pglite-socket";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Random } from "../../../lib/data/random.js";
import type { EmbeddingModel } from "../../../lib/retrieval/embedding/embedding-model.js";
import { PostgresRetriever, type PostgresRetrieverOptions } from "../../../lib/retrieval/engines/postgres.js";
import type { PostgresSearch } from "../../../lib/retrieval/engines/postgres-sql.js";

const DIMENSIONS = 16;
const ROWS = 300;
const random = new Random("pgvector");
const randomVector = () => Float32Array.from({ length: DIMENSIONS }, () => random.float() - 0.5);
const vectors = Array.from({ length: ROWS }, randomVector);
const literal = (vector: Float32Array) => `[${vector.join(",")}]`;
const words = ["silk", "capital", "river", "bridge", "museum", "France", "Italy"];

let db: PGlite;
let server: PGLiteSocketServer;
let connection: PostgresRetrieverOptions["connection"];
beforeAll(async () => {
  db = await PGlite.create({ extensions: { vector, pg_textsearch } });
  await db.exec(`
    CREATE EXTENSION vector;
    CREATE EXTENSION pg_textsearch;
    CREATE TABLE passages (id int, title text, text text, embedding vector(${DIMENSIONS}),
      contents text GENERATED ALWAYS AS (title || ' ' || text) STORED);`);
  const text = (i: number) => words.filter((_, word) => i % (word + 2) === 0).join(" ");
  const columns = "unnest($1::int[], $2::text[], $3::text[], $4::text[]) AS p(id, title, text, embedding)";
  await db.query(`INSERT INTO passages SELECT id, title, text, embedding::vector FROM ${columns}`, [
    vectors.map((_, i) => i),
    vectors.map((_, i) => `title${i}`),
    vectors.map((_, i) => text(i)),
    vectors.map(literal),
  ]);
  await db.exec("CREATE INDEX passages_bm25 ON passages USING bm25(contents) WITH (text_config = 'english')");
  server = new PGLiteSocketServer({ db, host: "127.0.0.1", port: 0, maxConnections: 8 });
  await server.start();
  connection = { host: "127.0.0.1", port: Number(server.getServerConn().split(":")[1]), user: "postgres" };
}, 120_000);
afterAll(async () => {
  await server?.stop();
  await db?.close();
});

/** Queries are numbers: of the vector that they stand for. */
const queries = ["3", "141", "59"];
const queryVectors = new Map(queries.map((query) => [query, randomVector()]));
const embedding: EmbeddingModel = {
  name: "table",
  embed: async (texts, role) => {
    expect(role).toBe("query");
    return texts.map((text) => queryVectors.get(text) as Float32Array);
  },
};

async function search(
  search: PostgresSearch,
  texts: string[],
  topK: number,
  options: PostgresRetrieverOptions = {},
) {
  const retriever = new PostgresRetriever({ connection, search, embedding, retries: 0, ...options });
  try {
    return await retriever.search(texts, topK);
  } finally {
    await retriever.close();
  }
}

const dot = (x: Float32Array, y: Float32Array) =>
  x.reduce((sum, value, i) => sum + value * (y[i] as number), 0);
const scores = {
  cosine: (x: Float32Array, y: Float32Array) => dot(x, y) / Math.sqrt(dot(x, x) * dot(y, y)),
  "inner-product": dot,
  l2: (x: Float32Array, y: Float32Array) => -Math.hypot(...x.map((value, i) => value - (y[i] as number))),
};

test.each(["cosine", "inner-product", "l2"] as const)(
  "nearest neighbours by %s are the exact ones",
  async (distance) => {
    const lists = await search({ kind: "vector", distance }, queries, 5);
    for (const [i, query] of queries.entries()) {
      const exact = vectors
        .map((vector, id) => ({
          id: String(id),
          score: scores[distance](queryVectors.get(query) as Float32Array, vector),
        }))
        .sort((x, y) => y.score - x.score)
        .slice(0, 5);
      expect(lists[i]?.map(({ id }) => id)).toEqual(exact.map(({ id }) => id));
      for (const [rank, { score }] of exact.entries()) expect(lists[i]?.[rank]?.score).toBeCloseTo(score, 4);
    }
  },
);

test("an HNSW index is used and finds the same", async () => {
  const exact = await search({ kind: "vector" }, queries, 3);
  await db.exec(
    "CREATE INDEX passages_hnsw ON passages USING hnsw (embedding vector_cosine_ops); ANALYZE passages",
  );
  const before = await scans("passages_hnsw");
  await db.exec("ALTER DATABASE postgres SET enable_seqscan = off; SET enable_seqscan = off");
  expect(await search({ kind: "vector" }, queries, 3)).toEqual(exact);
  await db.exec("RESET enable_seqscan; ALTER DATABASE postgres RESET enable_seqscan");
  expect(await scans("passages_hnsw")).toBeGreaterThan(before);
});

async function scans(index: string): Promise<number> {
  await db.exec("SELECT pg_stat_force_next_flush()");
  const { rows } = await db.query<{ idx_scan: number }>(
    "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = $1",
    [index],
  );
  return Number(rows[0]?.idx_scan);
}

test("BM25 by pg_textsearch", async () => {
  const lists = await search(
    { kind: "bm25", index: "passages_bm25" },
    ["title77", "Italian silk'; --", "zzz"],
    4,
  );
  expect(lists[0]?.map(({ id }) => id)).toEqual(["77"]);
  expect(lists[1]).toHaveLength(4);
  for (const { text, score } of lists[1] ?? []) {
    expect(text).toContain("silk");
    expect(score).toBeGreaterThan(0);
  }
  expect(lists[2]).toEqual([]);
});

test("an embedding that gives something else fails, by name", async () => {
  const bad = (vectors: Float32Array[]): PostgresRetrieverOptions => ({
    embedding: { name: "bad", embed: async () => vectors },
  });
  const vector = { kind: "vector" } as const;
  const failure = (message: string) => ({
    code: "RETRIEVAL_FAILED",
    message: expect.stringContaining(message),
  });
  await expect(search(vector, ["3"], 1, bad([]))).rejects.toMatchObject(failure("0 vectors for 1 texts"));
  const nan = bad([new Float32Array(DIMENSIONS).fill(Number.NaN)]);
  await expect(search(vector, ["3"], 1, nan)).rejects.toMatchObject(failure("not finite"));
  const short = bad([new Float32Array(3)]);
  await expect(search(vector, ["3"], 1, short)).rejects.toMatchObject(failure("different vector dimensions"));
});
