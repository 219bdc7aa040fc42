/**
 * GRPO with the HindSearch term as a loop of one's own, from the parts that `HindSearchTrainer` is made of.
 *
 *     npx tsx examples/own-loop.ts
 *
 * Runs offline in a few seconds: a model of 20,000 parameters in a world of eight names (`own-loop/tiny-world.ts`).
 */
import {
  BoundProtocol,
  critiqueSamples,
  exactMatch,
  hintsOf,
  QuestionSampler,
  rollout,
  scoreGroups,
  scoreHinted,
  scoreReference,
  trainingBatch,
} from "hindsearch";
import {
  TINY_JUDGE,
  TINY_PROTOCOL,
  TINY_QUESTIONS,
  TINY_RETRIEVER,
  warmPolicy,
} from "./own-loop/tiny-world.js";

const STEPS = 20;
const TEMPERATURE = { temperature: 1 };

using policy = await warmPolicy();
using frozen = await policy.snapshot();
using decoder = await policy.createDecoder({ cacheTokens: 8192 });
const protocol = new BoundProtocol(TINY_PROTOCOL, policy);
const questions = new QuestionSampler(TINY_QUESTIONS, { seed: 1 });

for (let step = 0; step < STEPS; step++) {
  // Six attempts at each of eight questions, with the search engine in the loop.
  const options = { decoder, retriever: TINY_RETRIEVER, protocol, groupSize: 6, seed: 1, step };
  const { groups } = await rollout({ ...options, questions: questions.next(8) });

  // Rewards, and what each is worth within its group.
  const scored = await scoreGroups(
    groups,
    ({ answer, question }) => ({ reward: exactMatch(answer, question.goldAnswers), components: {} }),
    { successThreshold: 0.5, advantage: { normalize: true } },
  );
  const samples = scored.flat();

  // A judge with the gold answer says what the failed attempts should have searched for.
  const decode = (tokens: Int32Array) => policy.tokenizer.decode(tokens);
  await critiqueSamples(samples, TINY_JUDGE, { scope: "failed", seesGold: true, deadline: 10_000, decode });

  // The frozen initial policy reads them twice: as they were (the reference), and with the critique (the teacher).
  await scoreReference(frozen, samples, TEMPERATURE);
  const { logProbs } = await scoreHinted(frozen, hintsOf(samples, "real"), protocol, 96, TEMPERATURE);
  for (const [sample, teacherLogProbs] of logProbs) sample.teacherLogProbs = teacherLogProbs;

  // The loss: clipped policy gradient, distance to the reference, and the HindSearch term on the search tokens.
  const batch = trainingBatch(samples, "search");
  const { distillLoss } = await policy.forwardBackward(batch, {
    policy: {},
    kl: {},
    distill: { weight: 0.5 },
  });
  const { gradientNorm } = await policy.step({ learningRate: 2e-3 });

  const right = samples.filter(({ reward }) => reward === 1).length / samples.length;
  console.log(
    `step ${step}: ${(100 * right).toFixed(0)} % right, distillation ${distillLoss.toFixed(4)}, ` +
      `gradient ${gradientNorm.toFixed(3)}`,
  );
}
