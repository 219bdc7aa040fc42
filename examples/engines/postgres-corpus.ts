/** Puts a corpus into PostgreSQL, as docs/engines.md describes it. */
import type { Passage } from "hindsearch";
import { Client } from "pg";
import type { PostgresAddress } from "./postgres-server.js";

const ROWS = 2_000;

/**
 * Makes the table `passages` with an index for full-text search.
 *
 * @returns How many passages there were.
 */
export async function loadCorpus(
  address: PostgresAddress,
  passages: Iterable<Passage> | AsyncIterable<Passage>,
  signal?: AbortSignal,
): Promise<number> {
  const client = new Client({ ...address });
  await client.connect();
  try {
    await client.query(`CREATE TABLE passages (
      id text PRIMARY KEY, title text NOT NULL, text text NOT NULL,
      search tsvector GENERATED ALWAYS AS (to_tsvector('english', title || ' ' || text)) STORED)`);
    let total = 0;
    let rows: Passage[] = [];
    const flush = async () => {
      signal?.throwIfAborted();
      const columns = (["id", "title", "text"] as const).map((column) => rows.map((row) => row[column]));
      const statement =
        "INSERT INTO passages (id, title, text) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])";
      await client.query(statement, columns);
      total += rows.length;
      rows = [];
    };
    for await (const passage of passages) {
      rows.push(passage);
      if (rows.length === ROWS) await flush();
    }
    await flush();
    await client.query("CREATE INDEX ON passages USING gin (search)");
    await client.query("ANALYZE passages");
    return total;
  } finally {
    await client.end();
  }
}
