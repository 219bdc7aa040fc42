/**
 * A retriever of one's own: web search, here through a SearXNG instance, which searches the engines it is set up with.
 * Start one with `docker run -p 8888:8080 searxng/searxng` and add `json` to `search.formats` in its settings.
 *
 *     npx tsx examples/web-search.ts http://localhost:8888 "Who directed Free Guy?"
 *
 * Training on the open web cannot be repeated: pages change, and answers leak into them. Prefer a corpus.
 */
import { pathToFileURL } from "node:url";
import { AttemptError, type Passage, type RemoteOptions, RemoteRetriever } from "hindsearch";

/** One page of results, as SearXNG's JSON format has it. */
interface Results {
  results?: { url?: unknown; title?: unknown; content?: unknown }[];
}

/** Batching, retries, time-outs, limits and closing come from {@link RemoteRetriever}; this is what is left to write. */
export class WebSearch extends RemoteRetriever {
  readonly #url: URL;

  constructor(url: string, options: RemoteOptions = {}) {
    super(`SearXNG at ${new URL(url).origin}`, { batchSize: 1, concurrency: 2, ...options });
    this.#url = new URL("search", url);
  }

  protected override ask(
    queries: readonly string[],
    topK: number,
    signal: AbortSignal,
  ): Promise<Passage[][]> {
    return Promise.all(queries.map((query) => this.#one(query, topK, signal)));
  }

  protected override async disconnect(): Promise<void> {}

  async #one(query: string, topK: number, signal: AbortSignal): Promise<Passage[]> {
    const url = new URL(this.#url);
    url.search = new URLSearchParams({ q: query, format: "json" }).toString();
    const response = await fetch(url, { signal, redirect: "error" }).catch((cause) => {
      throw new AttemptError(`connection failed: ${cause.message}`, { retryable: true, cause });
    });
    if (!response.ok) {
      const retryable = response.status === 429 || response.status >= 500;
      throw new AttemptError(`status ${response.status}`, { retryable, status: response.status });
    }
    const { results } = (await response.json()) as Results;
    if (!Array.isArray(results)) throw new AttemptError("the answer has no results", { retryable: false });
    return results.slice(0, topK).map(({ url, title, content }) => ({
      id: String(url),
      title: String(title ?? ""),
      text: String(content ?? ""),
    }));
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const [url, query] = process.argv.slice(2);
  if (url === undefined || query === undefined)
    throw new Error("Give the address of a SearXNG instance and a query.");
  const search = new WebSearch(url);
  for (const { id, title, text } of (await search.search([query], 5))[0] ?? [])
    console.log(`${title}\n${id}\n${text}\n`);
  await search.close();
}
