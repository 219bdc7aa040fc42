import { afterEach } from "vitest";
import { HttpRetriever, type HttpRetrieverOptions } from "../../lib/retrieval/http.js";
import { type Handler, loopbackServer, type ReceivedRequest, sendJson } from "../support/loopback-server.js";

/** The key that every retriever of {@link searchService} sends. */
export const KEY = "canary-key-5f2c9a";

/** One hit as the reference server writes it. */
export const hit = (id: string, text: string, score = 1) => ({
  document: { id, contents: `"T ${id}"\n${text}` },
  score,
});

/** What a service answers that finds `id-QUERY` and `other` for every query. */
export const answer = ({ body }: ReceivedRequest) => ({
  result: body.queries.map((query: string) =>
    [hit(`id-${query}`, query, 2), hit("other", "x", 1)].slice(0, body.topk),
  ),
});

/** Serves {@link answer}. */
export const correct: Handler = (request, response) => sendJson(response, answer(request));

/** A search service for each test of the calling file, and retrievers that ask it and wait little. */
export function searchService() {
  const server = loopbackServer(correct);
  const retrievers: HttpRetriever[] = [];
  afterEach(async () => {
    for (const retriever of retrievers.splice(0)) await retriever.close();
  });
  return {
    /** The server of the running test. */
    get server() {
      return server.current;
    },
    /** A retriever whose service behaves like `handler`. */
    retriever(handler: Handler = correct, options: Partial<HttpRetrieverOptions> = {}): HttpRetriever {
      server.current.handler = handler;
      const url = `${server.current.origin}/retrieve`;
      const fast = { baseDelayMs: 5, maxDelayMs: 20, batchWindowMs: 2 };
      const retriever = new HttpRetriever({ url, apiKey: KEY, ...fast, ...options });
      retrievers.push(retriever);
      return retriever;
    },
  };
}
