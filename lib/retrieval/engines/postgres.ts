import type { Pool, PoolClient, PoolConfig } from "pg";
import { z } from "zod";
import { onAbort, throwIfAborted } from "../../abort.js";
import { count, parseOptions } from "../../network/options.js";
import { AttemptError } from "../../network/retry.js";
import { foreignReason, Scrubber } from "../../network/secrets.js";
import { loadOptional } from "../../optional-package.js";
import type { EmbeddingModel } from "../embedding/embedding-model.js";
import type { Passage } from "../passage.js";
import { type RemoteOptions, RemoteRetriever, remoteShape } from "../remote.js";
import {
  type PostgresSearch,
  type PostgresTable,
  type SearchStatement,
  searchStatement,
} from "./postgres-sql.js";
import { embeddingModel, queryVectors } from "./query-vectors.js";
import { type EngineTls, tls } from "./tls.js";

/** How to reach a PostgreSQL server. What is absent comes from `PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE`. */
export interface PostgresConnection {
  /** `postgresql://...` with everything in it; a secret. Wins over the other fields. */
  connectionString?: string | undefined;
  /** Name, address, or the folder of a Unix socket. */
  host?: string | undefined;
  /** Default 5432. */
  port?: number | undefined;
  /** Role to log in as. */
  user?: string | undefined;
  /** A secret. */
  password?: string | undefined;
  /** Default: the user's name. */
  database?: string | undefined;
  /** TLS: `true` checks the server's certificate. Default off. */
  ssl?: boolean | EngineTls | undefined;
}

/** The columns of a passage. */
export interface PostgresColumns {
  /** Default `"id"`; of any type. */
  id?: string | undefined;
  /** Default `"title"`; `null` says that there is none. */
  title?: string | null | undefined;
  /** Default `"text"`. */
  text?: string | undefined;
}

/** Settings of {@link PostgresRetriever}. `batchSize` is 8 by default: a connection works on one query at a time. */
export interface PostgresRetrieverOptions extends RemoteOptions {
  /** Default: what the environment says. */
  connection?: PostgresConnection | undefined;
  /** Default: the connection's search path. */
  schema?: string | undefined;
  /** Default `"passages"`. */
  table?: string | undefined;
  /** Where a passage's parts are. */
  columns?: PostgresColumns | undefined;
  /** Default full text in the column `search`. */
  search?: PostgresSearch | undefined;
  /** The model of a vector search, which needs it. It stays the caller's. */
  embedding?: EmbeddingModel | undefined;
}

const name = z.string().min(1).max(63);
const Search = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("full-text"),
    column: name.optional(),
    config: name.optional(),
    rank: z.enum(["ts_rank", "ts_rank_cd"]).optional(),
    normalization: z.int().min(0).max(63).optional(),
  }),
  z.strictObject({ kind: z.literal("bm25"), column: name.optional(), index: z.string().min(1) }),
  z.strictObject({
    kind: z.literal("vector"),
    column: name.optional(),
    distance: z.enum(["cosine", "inner-product", "l2"]).optional(),
  }),
]);
/** Schema of {@link PostgresRetrieverOptions}. @internal */
export const postgresShape = {
  connection: z
    .strictObject({
      connectionString: z.string().min(1).optional(),
      host: z.string().min(1).optional(),
      port: z.int().min(1).max(65_535).optional(),
      user: z.string().min(1).optional(),
      password: z.string().optional(),
      database: z.string().min(1).optional(),
      ssl: z.union([z.boolean(), tls]).optional(),
    })
    .default({}),
  schema: name.optional(),
  table: name.default("passages"),
  columns: z
    .strictObject({
      id: name.default("id"),
      title: name.nullable().default("title"),
      text: name.default("text"),
    })
    .prefault({}),
  search: Search.default({ kind: "full-text" }),
  embedding: embeddingModel.optional(),
  ...remoteShape,
  batchSize: count.default(8),
};
const Options = z
  .strictObject(postgresShape)
  .refine(({ search, embedding }) => search.kind !== "vector" || embedding !== undefined, {
    path: ["embedding"],
    message: "a vector search needs one",
  });

/** Classes and codes of SQLSTATE that may pass: connection, resources, shutdown, deadlock, lock, cancelled by a time-out. */
const MAY_PASS = /^(08|53|57P0|40001|40P01|55P03|57014)/;
/** `undefined_table`, `undefined_column`, `undefined_function`, `undefined_object`. */
const UNDEFINED = /^(42P01|42703|42883|42704)$/;

interface Row {
  ord: string;
  id: string;
  title: string;
  text: string;
  score: number;
}

/**
 * Searches a table of PostgreSQL: full text, BM25 by pg_textsearch, or vectors by pgvector. Needs the optional package
 * `pg`, loaded on first use.
 *
 * Queries are parameters and names quoted identifiers. A search that is given up closes its connection; the server stops
 * working on it after `timeoutMs` at the latest (`statement_timeout`).
 */
export class PostgresRetriever extends RemoteRetriever {
  readonly #config: PoolConfig;
  readonly #statement: SearchStatement;
  readonly #embedding: EmbeddingModel | undefined;
  readonly #scrubber: Scrubber;
  #pool: Promise<Pool> | undefined;

  /**
   * Does not connect yet.
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` on wrong or unknown options.
   */
  constructor(options: PostgresRetrieverOptions = {}) {
    const checked = parseOptions(Options, options, "PostgresRetriever");
    const { connection, columns, schema, table, search, timeoutMs, concurrency } = checked;
    const where: PostgresTable = {
      schema,
      table,
      columns: { ...columns, title: columns.title ?? undefined },
    };
    const { connectionString, password = process.env.PGPASSWORD } = connection;
    const secrets = [password, ...secretsOf(connectionString)];
    super(`PostgreSQL table ${schema === undefined ? "" : `${schema}.`}${table}`, checked, secrets);
    this.#statement = searchStatement(where, search);
    this.#embedding = search.kind === "vector" ? checked.embedding : undefined;
    this.#scrubber = new Scrubber(secrets);
    this.#config = {
      ...(Object.fromEntries(
        Object.entries(connection).filter(([, value]) => value !== undefined),
      ) as PoolConfig),
      max: concurrency,
      connectionTimeoutMillis: timeoutMs,
      statement_timeout: timeoutMs,
      application_name: "hindsearch",
    };
  }

  /** @internal */
  protected override async ask(
    queries: readonly string[],
    topK: number,
    signal: AbortSignal,
  ): Promise<Passage[][]> {
    const texts =
      this.#embedding === undefined
        ? // PostgreSQL has no text with NUL in it.
          queries.map((query) => query.replaceAll("\0", " "))
        : (await queryVectors(this.#embedding, queries, signal)).map((vector) => `[${vector.join(",")}]`);
    const lists: Passage[][] = queries.map(() => []);
    for (const { ord, score, ...passage } of await this.#run(
      [texts, topK, ...this.#statement.parameters],
      signal,
    )) {
      lists[Number(ord) - 1]?.push({ ...passage, score: Number(score) });
    }
    return lists;
  }

  /** @internal */
  protected override async disconnect(): Promise<void> {
    await (await this.#pool?.catch(() => undefined))?.end();
  }

  async #run(values: unknown[], signal: AbortSignal): Promise<Row[]> {
    this.#pool ??= this.#connect();
    const pool = await this.#pool;
    try {
      return await this.#query(await pool.connect(), values, signal);
    } catch (error) {
      throwIfAborted(signal);
      throw this.#failed(error);
    }
  }

  async #query(client: PoolClient, values: unknown[], signal: AbortSignal): Promise<Row[]> {
    let release = (destroy: boolean) => {
      release = () => {};
      client.release(destroy);
    };
    const off = onAbort(signal, () => release(true));
    try {
      throwIfAborted(signal);
      const { rows } = await client.query<Row>(this.#statement.text, values);
      release(false);
      return rows;
    } catch (error) {
      // After most errors of the server's own the connection is as good as before.
      release(/^(08|57P0)/.test(stateOf(error) ?? "08"));
      throw error;
    } finally {
      off();
    }
  }

  async #connect(): Promise<Pool> {
    const { default: pg } = await loadOptional("PostgresRetriever", ["pg@^8.16.0"], () => import("pg"));
    const pool = new pg.Pool(this.#config);
    // Connections tell of their end beside failing the query, idle ones through the pool. Unheard it would end the process.
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
    return pool;
  }

  /** Without a cause: the client's errors may hold the connection string. */
  #failed(error: unknown): AttemptError {
    const state = stateOf(error);
    const { message, code } = error as { message?: string; code?: string };
    const reason = foreignReason(this.#scrubber.scrub(message || String(code ?? error)));
    const hint = UNDEFINED.test(state ?? "")
      ? "; docs/engines.md has the statements that make what is needed"
      : "";
    return new AttemptError(`${state === undefined ? "" : `SQLSTATE ${state}: `}${reason}${hint}`, {
      retryable: state === undefined || MAY_PASS.test(state),
    });
  }
}

/** The server's code of an error, `undefined` if it does not come from the server. */
function stateOf(error: unknown): string | undefined {
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  return typeof code === "string" && severity !== undefined ? code : undefined;
}

/** The string, and the passwords in it: before the host, or a field of its query; as written and as meant. */
function secretsOf(connectionString: string | undefined): string[] {
  if (connectionString === undefined) return [];
  if (!URL.canParse(connectionString)) return [connectionString];
  const { password, search, searchParams } = new URL(connectionString);
  const written = [password, ...[...search.matchAll(/[?&]password=([^&]*)/g)].map(([, value = ""]) => value)];
  return [connectionString, ...written, ...written.map(decoded), ...searchParams.getAll("password")];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
