/**
 * A training that is stopped and goes on: the weights come out as those of one that was never stopped, bit for bit.
 *
 *     npx tsx examples/resume.ts
 */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type HindSearchOptions, HindSearchTrainer, type Policy } from "hindsearch";
import {
  TINY_JUDGE,
  TINY_PROTOCOL,
  TINY_QUESTIONS,
  TINY_RETRIEVER,
  warmPolicy,
} from "./own-loop/tiny-world.js";

const folder = await mkdtemp(join(tmpdir(), "hindsearch-resume-"));

/** Trains the same initial model; it is loaded anew each time, since it is the teacher too. */
async function train(
  options: Partial<HindSearchOptions>,
  stopAfter = Number.POSITIVE_INFINITY,
): Promise<Policy> {
  const policy = await warmPolicy();
  const trainer = new HindSearchTrainer({
    policy,
    retriever: TINY_RETRIEVER,
    judge: TINY_JUDGE,
    questions: TINY_QUESTIONS,
    protocol: TINY_PROTOCOL,
    steps: 6,
    questionsPerStep: 8,
    groupSize: 4,
    learningRate: { kind: "constant", learningRate: 2e-3 },
    decoder: { cacheTokens: 8192 },
    ...options,
  });
  for await (const { step, checkpoint } of trainer) {
    console.log(`step ${step}${checkpoint ? `, checkpoint in ${checkpoint.folder}` : ""}`);
    if (step + 1 === stopAfter) break; // or Ctrl-C, a crash, a kill
  }
  return policy;
}

const runFolder = join(folder, "run");
(await train({ runFolder }, 2)).dispose();
using resumed = await train({ runFolder, resume: true });
using whole = await train({});

let equal = true;
for (const { name } of whole.parameters) {
  const [a, b] = [await whole.weight(name), await resumed.weight(name)];
  equal &&= Buffer.from(a.buffer).equals(Buffer.from(b.buffer));
}
console.log(`All ${whole.parameters.length} weights are ${equal ? "equal" : "NOT equal"}.`);
