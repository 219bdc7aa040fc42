/** How {@link PostgresRetriever} finds passages. */
export type PostgresSearch =
  | {
      /**
       * PostgreSQL's own full-text search, over a `tsvector` column with a GIN index. A passage is found if it has any of the
       * query's words: a question hardly ever finds a passage that has them all.
       */
      kind: "full-text";
      /** The `tsvector` column. Default `"search"`. */
      column?: string | undefined;
      /** The text search configuration that the column was made with. Default `"english"`. */
      config?: string | undefined;
      /**
       * Default `"ts_rank"`. `"ts_rank_cd"` looks at how close the words are to each other; on questions of which any word
       * counts it found fewer than half the gold passages and took five times as long (docs/engines.md). Neither knows that rare
       * words matter more.
       */
      rank?: "ts_rank" | "ts_rank_cd" | undefined;
      /** PostgreSQL's normalisation flags, 0 to 63. Default 1: divided by 1 plus the logarithm of the passage's length. */
      normalization?: number | undefined;
    }
  | {
      /** BM25 by the extension pg_textsearch. */
      kind: "bm25";
      /** The indexed text column, which should hold title and text. Default `"contents"`. */
      column?: string | undefined;
      /** The index, made `USING bm25`. */
      index: string;
    }
  | {
      /** Nearest neighbours by the extension pgvector. */
      kind: "vector";
      /** The `vector` column. Default `"embedding"`. */
      column?: string | undefined;
      /** Default `"cosine"`. The index must be of the same operator class. Scores are 1 - distance, else -distance. */
      distance?: "cosine" | "inner-product" | "l2" | undefined;
    };

/** Where the passages are. */
export interface PostgresTable {
  schema: string | undefined;
  table: string;
  columns: { id: string; title: string | undefined; text: string };
}

/** A statement, and the parameters behind the queries (`$1`, an array of texts) and topK (`$2`). */
export interface SearchStatement {
  text: string;
  parameters: readonly string[];
}

const RANKS = new Set(["ts_rank", "ts_rank_cd"]);
const OPERATORS = { cosine: "<=>", "inner-product": "<#>", l2: "<->" } as const;

/**
 * The statement that searches for many queries at once: rows of `ord` (the query's place, from 1), `id`, `title`, `text` and `score`, by
 * `ord` and then best first. Names become quoted identifiers; values are parameters.
 */
export function searchStatement(where: PostgresTable, search: PostgresSearch): SearchStatement {
  switch (search.kind) {
    case "full-text": {
      const { column = "search", config = "english", rank = "ts_rank", normalization = 1 } = search;
      if (!RANKS.has(rank) || !Number.isSafeInteger(normalization)) throw new RangeError("unchecked options");
      // The words of the query as the column knows them, any of which will do; NULL, which finds nothing, if there are none.
      const words = String.raw`CROSS JOIN LATERAL (
        SELECT string_agg('''' || replace(replace(word, '\', '\\'), '''', '''''') || '''', ' | ')::tsquery AS words
        FROM unnest(tsvector_to_array(to_tsvector($3::regconfig, q.query))) AS word
      ) AS w`;
      const found = `SELECT ${fields(where)}, ${rank}(p.${quote(column)}, w.words, ${normalization}) AS score
        FROM ${from(where)} AS p WHERE p.${quote(column)} @@ w.words ORDER BY score DESC, id LIMIT $2`;
      return { text: statement(`${words} CROSS JOIN LATERAL (${found}) AS r`), parameters: [config] };
    }
    case "bm25": {
      const distance = `p.${quote(search.column ?? "contents")} <@> to_bm25query(q.query, $3)`;
      const found = `SELECT ${fields(where)}, -(${distance}) AS score FROM ${from(where)} AS p ORDER BY ${distance} LIMIT $2`;
      // Without the index's help passages that share no word with the query come too, with 0.
      return {
        text: statement(`CROSS JOIN LATERAL (${found}) AS r`, "WHERE r.score > 0"),
        parameters: [search.index],
      };
    }
    case "vector": {
      const { column = "embedding", distance = "cosine" } = search;
      const far = `p.${quote(column)} ${OPERATORS[distance]} q.query::vector`;
      const score = distance === "cosine" ? `1 - (${far})` : `-(${far})`;
      const found = `SELECT ${fields(where)}, ${score} AS score FROM ${from(where)} AS p ORDER BY ${far} LIMIT $2`;
      return { text: statement(`CROSS JOIN LATERAL (${found}) AS r`), parameters: [] };
    }
  }
}

function statement(joins: string, filter = ""): string {
  return `SELECT q.ord, r.id, r.title, r.text, r.score
    FROM unnest($1::text[]) WITH ORDINALITY AS q(query, ord) ${joins} ${filter}
    ORDER BY q.ord, r.score DESC, r.id`;
}

function fields({ columns: { id, title, text } }: PostgresTable): string {
  const words = (column: string | undefined) =>
    column === undefined ? "''" : `coalesce(p.${quote(column)}::text, '')`;
  return `p.${quote(id)}::text AS id, ${words(title)} AS title, ${words(text)} AS text`;
}

function from({ schema, table }: PostgresTable): string {
  return schema === undefined ? quote(table) : `${quote(schema)}.${quote(table)}`;
}

function quote(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}
