import { z } from "zod";
import { RefusedRequest } from "../../network/server/refused-request.js";
import { formatContents, type Passage } from "../passage.js";

/** A search that a request asks for, and how its answer is written. */
export interface ServedSearch {
  queries: readonly string[];
  topK: number;
  /** The response body for one list per query. */
  answer(lists: readonly Passage[][]): unknown;
}

/** The most that one request may ask for, and what it gets if it does not say. */
export interface RequestLimits {
  maxQueries: number;
  maxTopK: number;
  defaultTopK: number;
}

/** Reads the body of a request. */
type Contract = (body: unknown, limits: RequestLimits) => ServedSearch;

const Retrieve = z.object({
  queries: z.array(z.string()),
  topk: z.int().min(0).nullish(),
  return_scores: z.boolean().default(false),
});

/**
 * Search-R1's `POST /retrieve`. Without scores the reference server mixes up its answer for two queries and fails for most
 * other numbers; this one answers as it means to: the documents themselves.
 */
const retrieve: Contract = (body, limits) => {
  const { queries, topk, return_scores } = parse(Retrieve, body);
  return {
    ...checked(queries, topk || limits.defaultTopK, limits),
    answer: (lists) => ({
      result: lists.map((list) =>
        list.map((passage) =>
          return_scores ? { document: document(passage), score: score(passage) } : document(passage),
        ),
      ),
    }),
  };
};

/** What FlashRAG's servers give if a request does not say how many. */
const FLASHRAG_TOP_N = 10;
const flashRag = {
  top_n: z.int().min(1).default(FLASHRAG_TOP_N),
  return_score: z.boolean().default(false),
};
const Search = z.object({ query: z.string(), ...flashRag });
const BatchSearch = z.object({ query: z.array(z.string()), ...flashRag });

/** The `POST /search` of servers of FlashRAG's retrievers. */
const search: Contract = (body, limits) => {
  const { query, top_n, return_score } = parse(Search, body);
  if (query.trim() === "") throw new RefusedRequest(400, "Query content cannot be empty");
  return {
    ...checked([query], top_n, limits),
    answer: ([list = []]) => (return_score ? [list.map(document), list.map(score)] : list.map(document)),
  };
};

/** The `POST /batch_search` of servers of FlashRAG's retrievers: scores are a second list, not pairs. */
const batchSearch: Contract = (body, limits) => {
  const { query, top_n, return_score } = parse(BatchSearch, body);
  return {
    ...checked(query, top_n, limits),
    answer: (lists) => {
      const documents = lists.map((list) => list.map(document));
      return return_score ? [documents, lists.map((list) => list.map(score))] : documents;
    },
  };
};

/** The contracts by path. */
export const CONTRACTS: ReadonlyMap<string, Contract> = new Map([
  ["/retrieve", retrieve],
  ["/search", search],
  ["/batch_search", batchSearch],
]);

function parse<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const problems = result.error.issues.map(
    ({ path, message }) => `${["body", ...path].join(".")}: ${message}`,
  );
  throw new RefusedRequest(422, problems.slice(0, 3).join("; "));
}

function checked(queries: readonly string[], topK: number, { maxQueries, maxTopK }: RequestLimits) {
  if (queries.length > maxQueries) {
    throw new RefusedRequest(
      413,
      `${queries.length} queries in one request; at most ${maxQueries} are served`,
    );
  }
  if (topK > maxTopK)
    throw new RefusedRequest(422, `${topK} passages per query; at most ${maxTopK} are served`);
  return { queries, topK };
}

function document(passage: Passage): { id: string; contents: string } {
  return { id: passage.id, contents: formatContents(passage) };
}

function score({ score }: Passage): number | null {
  return score ?? null;
}
