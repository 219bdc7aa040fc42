/**
 * Search-R1's retrieval server and a client of it: any retriever behind `POST /retrieve`, for trainers in any language.
 *
 *     npx tsx examples/search-r1-server.ts
 *
 * Asks itself and ends. `serve-retriever.ts` is the same as a command that stays.
 */
import { HttpRetriever, MemoryRetriever, serveRetriever } from "hindsearch";

const retriever = await MemoryRetriever.create([
  { id: "1", title: "Free Guy", text: "Free Guy is a film of 2021, directed by Shawn Levy." },
  { id: "2", title: "Shawn Levy", text: "Shawn Levy was born in Montreal." },
]);
await using server = await serveRetriever(retriever, { port: 0 }); // 0: any free port; loopback only

// As another trainer asks.
const response = await fetch(`${server.url}/retrieve`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ queries: ["Who directed Free Guy?"], topk: 1, return_scores: true }),
});
console.log(response.status, JSON.stringify(await response.json()));

// As this package asks: the same searches, with retries, deadlines and batches.
const client = new HttpRetriever({ url: `${server.url}/retrieve` });
for (const [best] of await client.search(["Where was Shawn Levy born?", "film of 2021"], 1)) {
  console.log(`${best?.title}: ${best?.text}`);
}
await client.close();
console.log(server.stats());
