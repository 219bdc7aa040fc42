import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BoundProtocol } from "../../lib/agent/bound-protocol.js";
import { searchR1 } from "../../lib/agent/protocol.js";
import type { Question } from "../../lib/data/question.js";
import { PolicyJudge } from "../../lib/judge/policy-judge.js";
import { Policy } from "../../lib/policy/policy.js";
import { type SupervisedExample, SupervisedTrainer } from "../../lib/training/supervised.js";
import { describeShared } from "../support/shared.js";
import { type CheckedTrainingOptions, checkedTraining, LETTERS } from "./checked-training.js";
import { expectRecorded } from "./health.js";
import { RealWorld } from "./real-world.js";

const MINUTE = 60_000;

describeShared("HindSearch on real questions over a real corpus", () => {
  let world: RealWorld;
  beforeAll(async () => {
    world = await RealWorld.open();
  }, 4 * MINUTE);
  afterAll(() => world?.[Symbol.asyncDispose]());

  test("a model of the shape of Qwen2.5-0.5B", { timeout: 10 * MINUTE }, async () => {
    const { config, tokenizer, questions, corpus, retriever, judgeServer, folder } = world;
    using policy = await Policy.initialize({ config, tokenizer, seed: 1, compute: "bf16" });
    const runFolder = join(folder, "run-500M");
    const results = await checkedTraining({
      policy,
      retriever,
      corpus,
      judge: world.chatJudge(policy),
      // To a random model one letter is as good as another: with letters for tags it searches and answers.
      protocol: searchR1({
        tags: { search: { open: "e", close: "y" }, answer: { open: "i", close: "k" } },
        maxSearches: 2,
        maxTurnTokens: 32,
        maxObservationTokens: 48,
        maxTokens: 512,
      }),
      questions,
      reward: LETTERS,
      steps: 2,
      questionsPerStep: 2,
      groupSize: 2,
      learningRate: { kind: "constant", learningRate: 1e-4 },
      decoder: { cacheTokens: 4096 },
      measureEvery: 0,
      checkpointEvery: 0,
      runFolder,
    });
    await expectRecorded(runFolder, results);
    expect(results.length).toBe(2);
    const samples = results.flatMap(({ groups }) => groups.flat());
    expect(samples.map(({ components }) => components.exactMatch)).toEqual(samples.map(() => 0));
    const searches = samples.flatMap(({ trajectory }) => trajectory.searches);
    expect(searches.filter(({ passages }) => passages.length > 0).length).toBeGreaterThan(0);
    const calls = results.reduce((sum, { metrics }) => sum + (metrics.judge?.calls ?? 0), 0);
    // One more asks whether the server keeps to a schema.
    expect(judgeServer.requests.length).toBe(calls + 1);
    const norms = results.flatMap(({ metrics }) => metrics.updates.map(({ gradientNorm }) => gradientNorm));
    for (const norm of norms) expect(norm).toBeGreaterThan(0);
    expect(policy.optimizerStep).toBe(norms.length);
    // Only now has the policy moved away from its frozen copy.
    expect(results[0]?.metrics.reference?.k3).toBe(0);
    expect(results[1]?.metrics.reference?.k3).toBeGreaterThan(0);
  });

  test("a small model that searches and answers", { timeout: 5 * MINUTE }, async () => {
    const { folder, questions, corpus, retriever } = world;
    const twoHops = questions.filter(
      ({ metadata }) => metadata?.type === "compositional" && metadata.supporting_complete,
    );
    const [known, others] = [twoHops.slice(0, 4), twoHops.slice(4, 6)];
    const warm = join(folder, "warm");
    {
      using taught = await smallModel(world);
      const examples = await transcripts(taught, world, known);
      await teach(taught, examples);
      await taught.save(warm);
    }
    const load = () => Policy.load(warm, { compute: "f32" });
    const run = (policy: Policy, name: string, more: Partial<CheckedTrainingOptions> = {}) =>
      checkedTraining({
        policy,
        retriever,
        corpus,
        judge: world.chatJudge(policy),
        protocol: PROTOCOL,
        questions: known,
        evaluation: { questions: others, modes: ["greedy", "sampled"] },
        steps: 2,
        questionsPerStep: 4,
        groupSize: 4,
        learningRate: { kind: "constant", learningRate: 1e-3 },
        decoder: { cacheTokens: 16_384 },
        measureEvery: 1,
        checkpointEvery: 1,
        runFolder: join(folder, name),
        ...more,
      });

    using policy = await load();
    const results = await run(policy, "whole");
    await expectRecorded(join(folder, "whole"), results);
    expect(results.length).toBe(2);
    for (const { metrics } of results) {
      const { rollout, distillation } = metrics;
      expect(rollout.statuses.answered).toBeGreaterThan(0);
      expect(rollout.searches).toBeGreaterThan(0.5);
      expect(rollout.reward).toBeGreaterThan(0);
      expect(distillation?.gap.tokens).toBeGreaterThan(0);
      expect(distillation?.emptyGap?.tokens).toBe(distillation?.gap.tokens);
    }
    expect(results.some(({ metrics }) => (metrics.gradients?.distill ?? 0) > 0)).toBe(true);
    expect(results.map(({ evaluations }) => evaluations.map(({ mode }) => mode))).toEqual([
      ["greedy", "sampled"],
      ["greedy", "sampled"],
    ]);

    // The same run with an interruption behind its first checkpoint.
    using first = await load();
    await run(first, "resumed", { lastStep: 0 });
    using second = await load();
    const [resumed] = await run(second, "resumed", { resume: true });
    expect(timeless(resumed?.metrics)).toEqual(timeless(results[1]?.metrics));
    expect(Buffer.compare(await embedding(second), await embedding(policy))).toBe(0);

    // On with another judge: the policy's own start, which was never taught to write a critique.
    using third = await load();
    using frozen = await third.snapshot();
    const judge = new PolicyJudge({ policy: frozen, maxTokens: 8 });
    const warnings: string[] = [];
    const onWarning = (warning: string) => warnings.push(warning);
    const [judged] = await run(third, "whole", { steps: 3, judge, resume: true, onWarning });
    expect(warnings).toEqual([
      expect.stringMatching(/other settings than before: steps was 2 and is 3; .*participants\.judge/),
    ]);
    expect(judged?.step).toBe(2);
    expect(judged?.metrics.judge?.calls).toBeGreaterThan(0);
    expect(judged?.metrics.judge?.failureShare).toBe(1);
    expect(judge.stats().calls).toBe(judged?.metrics.judge?.calls);
  });
});

const PROTOCOL = searchR1({ maxSearches: 3, maxTurnTokens: 40, maxObservationTokens: 120, maxTokens: 1024 });

/** Five million parameters, nearly all of them the embedding of the real vocabulary. */
function smallModel({ config, tokenizer }: RealWorld): Promise<Policy> {
  const sizes = {
    hidden_size: 32,
    intermediate_size: 64,
    num_hidden_layers: 2,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    max_position_embeddings: 2048,
  };
  return Policy.initialize({
    config: { ...config, ...sizes },
    tokenizer,
    standardDeviation: 0.1,
    compute: "f32",
  });
}

/** What a model is to write: searches for the two hops of a question, with their real results, and an answer. */
async function transcripts(
  policy: Policy,
  { retriever }: RealWorld,
  questions: readonly Question[],
): Promise<SupervisedExample[]> {
  const protocol = new BoundProtocol(PROTOCOL, policy);
  const examples: SupervisedExample[] = [];
  for (const [i, { question, goldAnswers, metadata }] of questions.entries()) {
    const { evidences } = metadata as { evidences: string[][] };
    const hops = evidences.map(([subject, relation]) => `${subject} ${relation}`);
    const found = await retriever.search(hops, PROTOCOL.passagesPerSearch);
    const right = goldAnswers[0];
    const wrong = questions[(i + 1) % questions.length]?.goldAnswers[0];
    for (const [searches, answer, importance] of [
      [2, right, 2],
      [2, wrong, 1],
      [1, wrong, 1],
    ] as const) {
      const tokens = [...protocol.promptTokens(question)];
      const weights = tokens.map(() => 0);
      const add = (ids: Iterable<number>, weight: number) => {
        for (const id of ids) {
          tokens.push(id);
          weights.push(weight);
        }
      };
      for (const [hop, query] of hops.slice(0, searches).entries()) {
        add(policy.tokenizer.encodeText(`<search> ${query} </search>`), importance);
        add(protocol.observationTokens(found[hop] ?? []), 0);
      }
      add(policy.tokenizer.encodeText(`<answer> ${answer} </answer>`), importance);
      examples.push({ tokens, weights });
    }
  }
  return examples;
}

async function teach(policy: Policy, examples: readonly SupervisedExample[]): Promise<void> {
  const steps = 120;
  const learningRate = { kind: "cosine", learningRate: 0.01, totalSteps: steps, warmupSteps: 5 } as const;
  const losses: number[] = [];
  const trainer = new SupervisedTrainer({
    policy,
    examples,
    steps,
    batchSize: examples.length,
    learningRate,
  });
  for await (const { loss } of trainer) losses.push(loss);
  // What is left is the choice between right and wrong answers.
  expect(losses.at(-1)).toBeLessThan(0.3);
}

/** Without what a clock says, and without what an interruption makes anew. */
/** Without times, and without the judge's totals, which a process counts from its start. */
function timeless(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, inner) => (/milliseconds|latency|^total$/i.test(key) ? undefined : inner)),
  );
}

async function embedding(policy: Policy): Promise<Uint8Array> {
  return new Uint8Array((await policy.weight("model.embed_tokens.weight")).buffer);
}
