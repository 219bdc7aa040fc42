import type { Handler } from "../support/loopback-server.js";
import {
  bomb,
  breakOff,
  breakOffChunked,
  drop,
  flood,
  floodHeaders,
  hang,
  json,
  nested,
  notHttp,
  raw,
  reset,
  slow,
  status,
  text,
  trickle,
  trickleHeaders,
  twice,
} from "../support/misbehaviour.js";
import { CLIENTS, type Client, type ClientName, changed, correct, RETRIEVERS } from "./clients.js";

/**
 * What becomes of a fault.
 *
 * - `repeated`: attempts follow, until one succeeds or the retries are used up.
 * - `final`: the request fails at once.
 * - `passes`: the answer is used.
 * - `later`: the request fails at once; whoever has the patience may ask again, which a rollout has.
 * - `halved`: the queries are asked for again in halves, so that one of them fails alone.
 */
export type Fate = "repeated" | "final" | "passes" | "later" | "halved";

/** A row of the table: a way in which a search server misbehaves, and what comes of it. */
export interface RetrievalFault {
  fault: string;
  /** What the table says of it together with the rows that follow. */
  together?: string;
  /** Default: all. */
  clients?: readonly ClientName[];
  serve(client: Client): Handler;
  fate: Fate;
  /** Of `repeated`: what is waited before the next attempt, in words, and at least so many milliseconds. */
  wait?: { words: string; least: number };
  /** What the error says, or what is used of the answer. */
  says: string;
  /** If the case needs another one. */
  timeoutMs?: number;
  /** What the test asks instead, and for how many passages. */
  asks?: { texts?: readonly string[]; topK?: number };
}

/** A server that does not look at the request. */
const always = (handler: Handler) => () => handler;

/** Settings of the tests; the text of the table has the defaults. */
export const SETTINGS = {
  retries: 2,
  baseDelayMs: 20,
  timeoutMs: 10_000,
  maxResponseBytes: 1_000_000,
  maxRetryAfterMs: 60_000,
};

/** Half of the first delay, which is the least that jitter makes of it. */
const BACK_OFF = { words: "after back-off", least: SETTINGS.baseDelayMs / 2 };
/** Of faults that end with it; the others are not to run into it on a busy machine. It begins before the request arrives. */
const TIMEOUT = 400;
const TIMED_OUT = { words: "after `timeoutMs` and back-off", least: TIMEOUT / 2 };
const repeated = (says: string, wait = BACK_OFF) => ({ fate: "repeated", says, wait }) as const;
const silent = (fault: string, serve: Handler) => ({
  ...{ fault, serve: always(serve), timeoutMs: TIMEOUT },
  ...repeated("no complete answer within", TIMED_OUT),
});
const final = (says: string) => ({ fate: "final", says }) as const;
const passes = (says: string) => ({ fate: "passes", says }) as const;
const date = (milliseconds: number) => new Date(Date.now() + milliseconds).toUTCString();

const [one, other] = ["a", "b"];

export const RETRIEVAL_FAULTS: readonly RetrievalFault[] = [
  // The connection.
  {
    fault: "the connection is closed before an answer",
    serve: always(drop),
    ...repeated("connection failed"),
  },
  {
    fault: "the connection is reset in the middle of the body",
    serve: always(reset),
    ...repeated("connection failed"),
  },
  {
    fault: "the body ends before its `Content-Length`",
    serve: always(breakOff),
    ...repeated("connection failed"),
  },
  {
    fault: "a chunked body ends without its last chunk",
    serve: always(breakOffChunked),
    ...repeated("connection failed"),
  },
  { fault: "something that is no HTTP", serve: always(notHttp), ...repeated("connection failed") },
  silent("no answer", hang),
  silent("a body that drips for ever", trickle),
  silent("headers that drip for ever", trickleHeaders),
  {
    fault: "a late answer, within `timeoutMs`",
    serve: (client) => slow(TIMEOUT, correct(client)),
    ...passes("the answer"),
  },
  // Refusals.
  ...[408, 409, 429, 500, 502, 503, 504].map((code) => ({
    fault: `status ${code}`,
    together: "status 408, 409, 429, 500 to 599",
    serve: always(status(code)),
    ...repeated(`status ${code}`),
  })),
  ...[429, 503].map((code) => ({
    fault: `status ${code} with \`Retry-After\` in seconds`,
    together: "the same with `Retry-After` in seconds",
    serve: always(status(code, { "retry-after": "0.3" })),
    ...repeated(`status ${code}`, { words: "after that time", least: 299 }),
  })),
  {
    fault: "status 429 with `Retry-After` as a date",
    // A date has whole seconds.
    serve: () => (_request, response) => void response.writeHead(429, { "retry-after": date(2000) }).end(),
    ...repeated("status 429", { words: "at that date", least: 900 }),
  },
  {
    fault: "status 429 with `Retry-After: 0` or a date in the past",
    serve: () => (_request, response, index) =>
      void response.writeHead(429, { "retry-after": index % 2 === 0 ? "0" : date(-60_000) }).end(),
    ...repeated("status 429"),
  },
  {
    fault: "status 429 with a `Retry-After` that means nothing",
    serve: always(status(429, { "retry-after": "soon" })),
    ...repeated("status 429"),
  },
  {
    fault: "status 429 with a longer `Retry-After` than `maxRetryAfterMs`",
    serve: always(status(429, { "retry-after": "900" })),
    fate: "later",
    says: "the server asks to wait 900 s",
  },
  ...[400, 401, 403, 404, 405, 410, 413, 422].map((code) => ({
    fault: `status ${code}`,
    together: "any other status of 400 to 499",
    serve: always(status(code)),
    ...final(`status ${code}`),
  })),
  {
    fault: "a redirect, to the same host or another",
    serve: () => (_request, response, index) =>
      void response
        .writeHead(index % 2 === 0 ? 307 : 302, {
          location: index % 2 === 0 ? "/elsewhere" : "http://127.0.0.1:9/",
        })
        .end(),
    ...final("redirects"),
  },
  // Answers that are none.
  {
    fault: "an HTML page with status 200",
    serve: always(text("<html>maintenance</html>", "text/html")),
    ...repeated("not JSON"),
  },
  { fault: "JSON that is cut off", serve: always(text('{"result": [[{"docum')), ...repeated("not JSON") },
  { fault: "an empty body with status 200", serve: always(text("")), ...repeated("not JSON") },
  {
    fault: "bytes that are no UTF-8",
    serve: always(raw((response) => response.end(Buffer.from([0x22, 0xff, 0x22])))),
    ...repeated("not JSON"),
  },
  { fault: "a body without end", serve: always(flood), ...final("more than maxResponseBytes") },
  { fault: "headers without end", serve: always(floodHeaders), ...final("headers are too large") },
  { fault: "a compressed bomb", serve: always(bomb), ...final("compressed") },
  { fault: "JSON nested 200,000 deep", serve: always(nested), ...final("the answer") },
  {
    fault: "JSON of another form",
    serve: always(json({ error: "index not loaded" })),
    ...final("the answer"),
  },
  { fault: "`null`", serve: always(json(null)), ...final("the answer") },
  // Counts and order.
  {
    fault: "too few lists of results",
    serve: (client) => changed(client, (results) => results.slice(1)),
    clients: CLIENTS.slice(0, 5),
    ...final("1 result lists for 2 queries"),
    asks: { texts: [one, other] },
  },
  {
    fault: "too many lists of results",
    serve: (client) => changed(client, (results) => [...results, ...results]),
    clients: CLIENTS.slice(0, 5),
    ...final("2 result lists for 1 queries"),
  },
  {
    fault: "more passages than asked for",
    serve: (client) => (request, response, index) => {
      const more = {
        ...request,
        body: JSON.parse(JSON.stringify(request.body).replaceAll(/("(?:topk|top_n|size|limit)"):1/g, "$1:3")),
      };
      correct(client)(more, response, index);
    },
    clients: CLIENTS.slice(0, 5),
    ...passes("the first `topK`"),
    asks: { topK: 1 },
  },
  {
    fault: "too few scores",
    serve: () =>
      json([
        [
          [
            { id: "a", contents: "x" },
            { id: "b", contents: "y" },
          ],
        ],
        [[1]],
      ]),
    clients: ["FlashRAG"],
    ...final("1 scores for 2 documents"),
  },
  {
    fault: "too few vectors",
    serve: (client) => changed(client, (results) => results.slice(1)),
    clients: ["embedding"],
    ...final("0 vectors for 1 texts"),
  },
  {
    fault: "too many vectors",
    serve: (client) => changed(client, (results) => [...results, ...results]),
    clients: ["embedding"],
    ...final("2 vectors for 1 texts"),
  },
  {
    fault: "vectors in another order",
    serve: (client) => changed(client, (results) => [...results].reverse()),
    clients: ["embedding"],
    ...passes("put in order by their `index`"),
    asks: { texts: [one, other] },
  },
  {
    fault: "an `index` that comes twice",
    serve: (client) => changed(client, ([first]) => [first, first]),
    clients: ["embedding"],
    ...final("comes twice or belongs to no text"),
    asks: { texts: [one, other] },
  },
  {
    fault: "vectors of different lengths",
    serve: (client) => changed(client, ([first]) => [first, { index: 1, embedding: [1] }]),
    clients: ["embedding"],
    ...final("a vector of 1 numbers where 2 were expected"),
    asks: { texts: [one, other] },
  },
  {
    fault: "too few scores",
    serve: (client) => changed(client, (results) => results.slice(1)),
    clients: ["re-ranker"],
    ...final("1 scores for 2 texts"),
  },
  {
    fault: "too many scores",
    serve: (client) => changed(client, (results) => [...results, ...results]),
    clients: ["re-ranker"],
    ...final("4 scores for 2 texts"),
  },
  {
    fault: "scores in another order",
    serve: (client) => changed(client, (results) => [...results].reverse()),
    clients: ["re-ranker"],
    ...passes("put in order by their `index`"),
  },
  {
    fault: "an `index` that comes twice",
    serve: (client) => changed(client, ([first]) => [first, first]),
    clients: ["re-ranker"],
    ...final("no score for text"),
  },
  {
    fault: "a passage twice in a list",
    serve: (client) => (request, response, index) => {
      const again = (list: unknown): unknown => (Array.isArray(list) ? [list[0], list[0]] : list);
      changed(client, (results) => results.map(again))(request, response, index);
    },
    clients: ["Search-R1", "FlashRAG"],
    ...passes('both; `repeatedPassages: "skip"` shows one'),
  },
  {
    fault: "the whole answer twice",
    serve: (client) => twice((request) => client.answer(request), client.headers),
    ...passes("the first"),
  },
  // One search of several.
  {
    fault: "a batch refused (400, 413, 422) because of one query in it",
    serve: (client) => (request, response, index) =>
      (/"b"|\[98,/.test(JSON.stringify(request.body)) ? status(422) : correct(client))(
        request,
        response,
        index,
      ),
    clients: RETRIEVERS,
    fate: "halved",
    says: "status 422",
  },
  {
    fault: "a batch of texts refused (400, 413, 422) because it is too large",
    serve: (client) => (request, response, index) =>
      (request.body.input.length > 1 ? status(413) : correct(client))(request, response, index),
    clients: ["embedding"],
    ...passes("asked for again in halves"),
    asks: { texts: [one, other] },
  },
  {
    fault: "one search of a batch is overloaded (429), the others are answered",
    serve: (client) => (request, response, index) =>
      changed(client, (results) =>
        index === 0 ? [results[0], { status: 429, error: { type: "rejected" } }] : results,
      )(request, response, index),
    clients: ["Elasticsearch", "OpenSearch"],
    ...passes("that one is asked for again, alone"),
    asks: { texts: [one, other] },
  },
  {
    fault: "some shards of the cluster failed, or ran out of time",
    serve: (client) =>
      changed(client, (results) =>
        results.map((result) => ({ ...(result as object), _shards: { failed: 1 } })),
      ),
    clients: ["Elasticsearch", "OpenSearch"],
    ...repeated("1 shards failed"),
  },
];

/** The clients that can show a fault. */
export const clientsOf = ({ clients = CLIENTS }: RetrievalFault) => clients;
