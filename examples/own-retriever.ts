/**
 * A retriever of one's own: anything that answers queries with passages. Here it is a table; for a service behind a
 * connection extend `RemoteRetriever` instead (web-search.ts), which brings retries, deadlines and batches.
 *
 *     npx tsx examples/own-retriever.ts
 */
import { type AbortOptions, BoundProtocol, evaluate, type Passage, type Retriever } from "hindsearch";
import { colourOf, TINY_PROTOCOL, TINY_QUESTIONS, warmPolicy } from "./own-loop/tiny-world.js";

/** Finds the fact about whatever name a query holds. */
class FactTable implements Retriever {
  readonly #facts = new Map(TINY_QUESTIONS.map(({ id }) => [id, `${id} is ${colourOf(id)}`]));
  asked = 0;

  // One list for each query, in their order, best first, at most topK long. When the engine cannot answer, throw
  // `new HindsearchError("RETRIEVAL_FAILED", ...)`: an empty list says that there is nothing to be found.
  async search(
    queries: readonly string[],
    topK: number,
    { signal }: AbortOptions = {},
  ): Promise<Passage[][]> {
    signal?.throwIfAborted();
    this.asked += queries.length;
    return queries.map((query) => this.#find(query).slice(0, topK));
  }

  #find(query: string): Passage[] {
    return query.split(/\s+/).flatMap((word) => {
      const text = this.#facts.get(word);
      return text === undefined ? [] : [{ id: word, title: word, text }];
    });
  }
}

const retriever = new FactTable();
console.log(await retriever.search(["eve", "nobody"], 1));

using policy = await warmPolicy();
using decoder = await policy.createDecoder({ cacheTokens: 8192 });
const protocol = new BoundProtocol(TINY_PROTOCOL, policy);
const { exactMatch, searches } = await evaluate({ decoder, retriever, protocol, questions: TINY_QUESTIONS });
console.log(`${retriever.asked} queries asked; exact match ${exactMatch}, ${searches} searches a question`);
