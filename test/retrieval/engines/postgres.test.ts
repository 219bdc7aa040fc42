// Against a real PostgreSQL, started here; skipped, saying so, where it is not installed.

import type { AddressInfo } from "node:net";
import { createServer, type Socket } from "node:net";
import { inspect } from "node:util";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { loadCorpus } from "../../../examples/engines/postgres-corpus.js";
import { findPostgres, PostgresServer } from "../../../examples/engines/postgres-server.js";
import { PostgresRetriever, type PostgresRetrieverOptions } from "../../../lib/retrieval/engines/postgres.js";
import type { Passage } from "../../../lib/retrieval/passage.js";

const corpus: Passage[] = [
  { id: "1", title: "Paris", text: "Paris is the capital of France." },
  { id: "2", title: "Rome", text: 'The capital of Italy; Italy\'s "Eternal" city.' },
  { id: "3", title: "Lyon", text: "A city in France: the France of silk." },
  { id: "4", title: "Back\\slash's", text: "C:\\silk\\it's quoted" },
];

const retrievers: PostgresRetriever[] = [];
afterEach(async () => {
  for (const retriever of retrievers.splice(0)) await retriever.close();
});
function use(options: PostgresRetrieverOptions): PostgresRetriever {
  const retriever = new PostgresRetriever({ baseDelayMs: 5, maxDelayMs: 20, batchWindowMs: 1, ...options });
  retrievers.push(retriever);
  return retriever;
}

const installed = findPostgres() !== undefined;
if (!installed) test.skip("PostgreSQL (needs initdb and postgres: apt-get install postgresql)");

describe.runIf(installed)("full text", () => {
  let server: PostgresServer;
  let admin: Client;
  beforeAll(async () => {
    server = await PostgresServer.start();
    await loadCorpus(server.address, corpus);
    admin = new Client({ ...server.address });
    await admin.connect();
  });
  afterAll(async () => {
    await admin?.end();
    await server?.close();
  });
  const fullText = (options: PostgresRetrieverOptions = {}) =>
    use({ connection: server.address, ...options });

  test("finds passages with any of the words, best first, in the order of the queries", async () => {
    const queries = ["What is the capital of Italy?", "silk from France", "Italian"];
    const lists = await fullText().search(queries, 3);
    expect(lists.map((list) => list.map(({ id }) => id))).toEqual([["2", "1"], ["3", "1", "4"], []]);
    for (const list of lists) {
      const scores = list.map(({ score }) => score as number);
      expect(scores).toEqual([...scores].sort((x, y) => y - x));
    }
    expect(lists[0]?.[0]).toEqual({ ...corpus[1], score: expect.any(Number) });
    expect(
      (await fullText({ search: { kind: "full-text", rank: "ts_rank_cd" } }).search(["silk"], 1))[0],
    ).toHaveLength(1);
  });

  test("no more than topK, and concurrent searches share statements", async () => {
    const retriever = fullText();
    const lists = await Promise.all(
      Array.from({ length: 20 }, (_, i) => retriever.search([`France ${i % 5}`], 1)),
    );
    expect(lists.flat().map((list) => list.map(({ id }) => id))).toEqual(Array(20).fill(["3"]));
    expect(retriever.stats()).toMatchObject({ queries: 20, sent: 5, requests: 1 });
  });

  test.each([
    ["quotes", "silk'); DROP TABLE passages; --"],
    ["operators of tsquery", "silk & !France | (silk <-> :*"],
    ["backslashes", "C:\\silk \\' \\"],
    ["NUL", "silk\0silk"],
    ["half a surrogate pair", "silk \ud83d"],
    ["a very long query", `${"word ".repeat(2_000)}silk`],
  ])("%s in a query are text", async (_name, query) => {
    const [list] = await fullText({ maxQueryLength: 20_000 }).search([query], 4);
    expect(list?.map(({ id }) => id).sort()).toEqual(expect.arrayContaining(["3"]));
    expect((await admin.query("SELECT count(*) FROM passages")).rows[0].count).toBe("4");
  });

  test("queries of stop words, punctuation or nothing find nothing", async () => {
    expect(await fullText().search(["the of and", "?!", "", "東京"], 3)).toEqual([[], [], [], []]);
  });

  test("names are identifiers, however they are spelt", async () => {
    await admin.query(`CREATE SCHEMA "odd ""one"; CREATE TABLE "odd ""one"."the Table" AS
      SELECT id::int AS "Id", NULL::text AS "t;", text AS "body", to_tsvector('simple', text) AS "vec" FROM passages`);
    const retriever = fullText({
      schema: 'odd "one',
      table: "the Table",
      columns: { id: "Id", title: "t;", text: "body" },
      search: { kind: "full-text", column: "vec", config: "simple" },
    });
    expect(await retriever.search(["italy"], 2)).toEqual([
      [{ id: "2", title: "", text: corpus[1]?.text, score: expect.any(Number) }],
    ]);
    expect((await fullText({ columns: { title: null } }).search(["Italy"], 1))[0]?.[0]?.title).toBe("");
  });

  test.each<[string, PostgresRetrieverOptions, RegExp]>([
    [
      "a table",
      { table: "passagess" },
      /SQLSTATE 42P01: relation "passagess" does not exist; docs\/engines.md/,
    ],
    ["a column", { search: { kind: "full-text", column: "tsv" } }, /42703/],
    ["a configuration", { search: { kind: "full-text", config: "klingon" } }, /42704.*klingon/],
    ["an extension", { search: { kind: "bm25", index: "passages_bm25" } }, /SQLSTATE 42/],
  ])("%s that is not there fails at once, by name", async (_what, options, message) => {
    const retriever = fullText(options);
    await expect(retriever.search(["a"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringMatching(message),
    });
    expect(retriever.stats()).toMatchObject({ retries: 0, failures: 1 });
  });

  test("a wrong password fails at once and is not told", async () => {
    const search = fullText({ connection: { ...server.address, password: "canary-5f2c9a" } }).search(
      ["a"],
      1,
    );
    const error = await search.then(
      () => undefined,
      (reason) => reason,
    );
    expect(error).toMatchObject({ code: "RETRIEVAL_FAILED", message: expect.stringContaining("28P01") });
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain("canary");
  });

  test("connections that the server ends are replaced", async () => {
    const retriever = fullText();
    await retriever.search(["silk"], 1);
    const others =
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hindsearch'";
    await admin.query(others);
    expect((await retriever.search(["France"], 1))[0]).toHaveLength(1);
  });

  test("a search that takes too long is ended, here and in the server", async () => {
    await admin.query(
      `CREATE VIEW slow AS SELECT p.* FROM passages p, LATERAL (SELECT pg_sleep(30 + 0 * length(p.id))) s`,
    );
    const retriever = fullText({ table: "slow", timeoutMs: 150, retries: 1 });
    await expect(retriever.search(["silk"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringMatching(/no complete answer within 150 ms|57014/),
    });
    expect(retriever.stats().retries).toBe(1);
    const busy =
      "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hindsearch' AND state = 'active'";
    await expect.poll(async () => (await admin.query(busy)).rows[0].count, { timeout: 5000 }).toBe("0");
  });

  test("an abort rejects at once, and the retriever goes on", async () => {
    await admin.query("BEGIN; LOCK TABLE passages");
    const retriever = fullText({ concurrency: 1 });
    const controller = new AbortController();
    const search = retriever.search(["silk"], 1, { signal: controller.signal });
    setTimeout(() => controller.abort(new Error("stop")), 50);
    await expect(search).rejects.toMatchObject({ code: "ABORTED", cause: { message: "stop" } });
    await admin.query("COMMIT");
    expect((await retriever.search(["silk"], 1))[0]).toHaveLength(1);
    await retriever.close();
    await expect(retriever.search(["silk"], 1)).rejects.toMatchObject({ code: "DISPOSED" });
  });
});

describe("without a server", () => {
  test("a connection that is reset under a query fails the search and not the process", async () => {
    const [authenticationOk, readyForQuery] = ["520000000800000000", "5a0000000549"];
    const rude = createServer((socket) => {
      socket.once("data", () => {
        socket.write(Buffer.from(`${authenticationOk}${readyForQuery}`, "hex"));
        socket.once("data", () => socket.resetAndDestroy());
      });
    }).listen(0, "127.0.0.1");
    await new Promise((done) => rude.once("listening", done));
    const { port } = rude.address() as AddressInfo;
    const retriever = use({ connection: { host: "127.0.0.1", port, user: "u" }, retries: 2 });
    await expect(retriever.search(["a"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringMatching(/ECONNRESET.*\(3 attempts\)/),
    });
    rude.close();
  });

  test("nobody listens: repeated, then RETRIEVAL_FAILED", async () => {
    const connection = { host: "127.0.0.1", port: 1, user: "u", password: "canary-5f2c9a" };
    const retriever = use({ connection, retries: 1 });
    await expect(retriever.search(["a"], 1)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringMatching(
        /^Search at PostgreSQL table passages failed: .*ECONNREFUSED.*\(2 attempts\)/,
      ),
    });
  });

  test("a server that never answers, after the time-out", async () => {
    const sockets: Socket[] = [];
    const mute = createServer((socket) => sockets.push(socket)).listen(0, "127.0.0.1");
    await new Promise((done) => mute.once("listening", done));
    const { port } = mute.address() as AddressInfo;
    const retriever = use({ connection: { host: "127.0.0.1", port, user: "u" }, timeoutMs: 100, retries: 0 });
    await expect(retriever.search(["a"], 1)).rejects.toMatchObject({ code: "RETRIEVAL_FAILED" });
    for (const socket of sockets) socket.destroy();
    mute.close();
  });

  test.each<[string, object]>([
    ["tabel", { tabel: "x" }],
    ["connection.pasword", { connection: { pasword: "canary" } }],
    ["embedding", { search: { kind: "vector" } }],
    ["search.normalization", { search: { kind: "full-text", normalization: 64 } }],
    ["search", { search: { kind: "fts" } }],
  ])("wrong %s is refused", (where, options) => {
    const make = () => new PostgresRetriever(options as PostgresRetrieverOptions);
    const [field = ""] = where.split(".").slice(-1);
    expect(make).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", message: expect.stringContaining(field) }),
    );
    expect(make).not.toThrow(/canary/);
  });
});
