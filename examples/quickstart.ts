/**
 * The shortest whole training: a model, something to search in, questions with answers and a judge go in; a trained
 * model and a run folder come out.
 *
 *     npx tsx examples/quickstart.ts
 *
 * Runs offline in seconds, since the model is a tiny one made on the spot. For your own, change lines (1) to (4) and
 * leave out the sizes; docs/quickstart.md goes through it.
 */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HindSearchTrainer } from "hindsearch";
import {
  TINY_JUDGE,
  TINY_PROTOCOL,
  TINY_QUESTIONS,
  TINY_RETRIEVER,
  warmPolicy,
} from "./own-loop/tiny-world.js";

const folder = await mkdtemp(join(tmpdir(), "hindsearch-quickstart-"));

using policy = await warmPolicy(); // (1) await Policy.load("Qwen2.5-0.5B-Instruct")
const retriever = TINY_RETRIEVER; // (2) await CorpusIndex.open("notes-index")
const questions = TINY_QUESTIONS; // (3) await loadQuestions("train.jsonl")
const judge = TINY_JUDGE; // (4) new ChatJudge({ baseURL, model, tokenizer: policy.tokenizer })

const trainer = new HindSearchTrainer({
  policy,
  retriever,
  questions,
  judge,
  runFolder: join(folder, "run"),
  steps: 15,
  // Sizes for a tiny model; the defaults are those of the paper.
  protocol: TINY_PROTOCOL,
  questionsPerStep: 8,
  groupSize: 6,
  learningRate: { kind: "constant", learningRate: 2e-3 },
  distillation: { weight: 0.5 },
  decoder: { cacheTokens: 8192 },
});
for await (const { step, metrics } of trainer) {
  const { reward, searches } = metrics.rollout;
  console.log(`step ${step}: reward ${reward?.toFixed(2)}, ${searches?.toFixed(1)} searches`);
}
await policy.save(join(folder, "model"));
console.log(`Model, metrics, trajectories and checkpoints are in ${folder}`);
