/**
 * Evaluation without training: two models on the same questions, and whether their difference is more than chance.
 *
 *     npx tsx examples/evaluate-only.ts
 */
import { BoundProtocol, compareReports, evaluate, type Policy } from "hindsearch";
import { TINY_PROTOCOL, TINY_QUESTIONS, TINY_RETRIEVER, warmPolicy } from "./own-loop/tiny-world.js";

/** Answers all questions. Greedy by default; here sampled, so that the two models differ now and then. */
async function report(policy: Policy) {
  using decoder = await policy.createDecoder({ cacheTokens: 8192 });
  return await evaluate({
    decoder,
    retriever: TINY_RETRIEVER,
    protocol: new BoundProtocol(TINY_PROTOCOL, policy),
    questions: TINY_QUESTIONS,
    sampling: { temperature: 1 },
    seed: 5,
    corpus: "tiny world", // reports over other corpora are not compared
  });
}

using early = await warmPolicy(1, 20); // or Policy.load("a/model/folder")
using late = await warmPolicy(1, 200);
const [before, after] = [await report(early), await report(late)];

for (const { id, answer, status, exactMatch } of after.results) {
  console.log(`${id}: ${answer} (${status}), ${exactMatch === 1 ? "right" : "wrong"}`);
}
console.log(`exact match ${before.exactMatch} -> ${after.exactMatch}, F1 ${before.f1} -> ${after.f1}`);
const { mean, low, high } = compareReports(after, before);
console.log(`difference ${mean.toFixed(3)}, 95 % interval ${low?.toFixed(3)} to ${high?.toFixed(3)}`);
