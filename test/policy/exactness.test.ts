import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { batchTotals } from "../../lib/policy/batch.js";
import type { Decoder, Segment } from "../../lib/policy/decoder.js";
import { engine } from "../../lib/policy/engine.js";
import type { Policy } from "../../lib/policy/policy.js";
import { randomTokens, smallConfigs, smallPolicy } from "../support/small-policy.js";
import { wordTokenizer } from "../support/small-tokenizers.js";

const threads = engine.threads;
afterAll(() => {
  engine.threads = threads;
});

/** Collects until nothing goes on without the caller. */
async function collect(decoder: Decoder): Promise<Map<number, Segment>> {
  const segments = new Map<number, Segment>();
  for (;;) {
    const finished = await decoder.next();
    if (finished.length === 0) return segments;
    for (const segment of finished) {
      expect(segment.reason, segment.error).not.toBe("failed");
      segments.set(segment.sequence, segment);
    }
  }
}

const families = Object.keys(smallConfigs) as (keyof typeof smallConfigs)[];
const cases = families.flatMap((family) =>
  (["f32", "bf16"] as const).map((compute) => ({ family, compute })),
);

describe.for(cases)("$family in $compute, bit for bit", ({ family, compute }) => {
  let policy: Policy;
  beforeAll(async () => {
    policy = await smallPolicy(family, { compute });
    return () => policy.dispose();
  });

  // Lengths around the page size of 16, and one token alone.
  const sequences = [1, 2, 15, 16, 17, 31, 40, 100, 3].map((length, index) => ({
    tokens: randomTokens(length, index),
  }));

  test("scores: alone, in any batch, with one thread or two", async () => {
    const alone = [];
    for (const sequence of sequences) alone.push((await policy.score([sequence], { entropy: true }))[0]);
    for (const count of [1, 2]) {
      engine.threads = count;
      for (const microBatchTokens of [1, 50, 8192]) {
        expect(await policy.score(sequences, { entropy: true, microBatchTokens })).toEqual(alone);
      }
      const backwards = await policy.score([...sequences].reverse(), { entropy: true });
      expect(backwards.reverse()).toEqual(alone);
    }
  });

  test("log-probs of training are those of scoring", async () => {
    const batch = sequences.map(({ tokens }) => ({
      tokens,
      weights: Float32Array.from(tokens, (_, index) => Math.sign(index)),
    }));
    const scores = await policy.score(sequences);
    for (const checkpointActivations of [true, false]) {
      const { logProbs } = await policy.forwardBackward(
        batch,
        { crossEntropy: {} },
        { checkpointActivations, microBatchTokens: 60 },
      );
      expect(logProbs).toEqual(scores.map((score) => score.logProbs));
    }
    await policy.zeroGradients();
  });

  test("what is decoded depends on weights, tokens and stream alone, and scores as it was sampled", async () => {
    const prompts = [3, 16, 33, 47].map((length, index) => randomTokens(length, 100 + index));
    const streams = prompts.flatMap((prompt, index) =>
      [0, 1, 2].map((sample) => ({ prompt, seed: 5, stream: 10 * index + sample })),
    );
    const options = { temperature: 0.8, maxNewTokens: 40, endTokens: [] };

    // One after the other, nothing shared.
    const alone: Segment[] = [];
    for (const { prompt, ...stream } of streams) {
      using decoder = await policy.createDecoder({ cacheTokens: 128, maxBatch: 1 });
      decoder.submit(prompt, { ...options, ...stream });
      alone.push(...(await collect(decoder)).values());
    }
    const written = (segments: Iterable<Segment | undefined>) =>
      Array.from(segments, (segment) => ({ tokens: segment?.tokens, logProbs: segment?.logProbs }));

    for (const [count, maxBatch, prefillTokens] of [
      [1, 64, 512],
      [2, 64, 512],
      [2, 5, 7],
    ] as const) {
      engine.threads = count;
      // All together.
      using together = await policy.createDecoder({ maxBatch, prefillTokens });
      const numbers = streams.map(({ prompt, ...stream }) =>
        together.submit(prompt, { ...options, ...stream }),
      );
      const finished = await collect(together);
      expect(written(numbers.map((number) => finished.get(number)))).toEqual(written(alone));

      // Forked from one cached prompt.
      using forking = await policy.createDecoder({ maxBatch, prefillTokens });
      const forks = prompts.flatMap((prompt, index) => {
        const parent = forking.submit(prompt, { maxNewTokens: 0, reserve: prompt.length + 40 });
        const [first, second, third] = streams.slice(3 * index);
        return forking.fork(parent, {
          ...options,
          streams: [first, second, third].map((each) => ({ seed: 5, stream: each?.stream ?? 0 })),
        });
      });
      const forked = await collect(forking);
      expect(written(forks.map((number) => forked.get(number)))).toEqual(written(alone));
      expect(forking.stats().sharedTokens).toBeGreaterThan(0);
    }

    const scores = await policy.score(
      streams.map(({ prompt }, index) => ({
        tokens: Int32Array.of(...prompt, ...(alone[index]?.tokens ?? [])),
        first: prompt.length,
      })),
      { temperature: 0.8 },
    );
    expect(scores.map(({ logProbs }, index) => logProbs.subarray(streams[index]?.prompt.length))).toEqual(
      alone.map((segment) => segment.logProbs),
    );
  });

  test("turns: a text taken in after others scores like one text", async () => {
    using decoder = await policy.createDecoder();
    const pieces: { tokens: Int32Array; logProbs: Float32Array }[] = [];
    const given = (tokens: Int32Array) => pieces.push({ tokens, logProbs: new Float32Array(tokens.length) });
    const prompt = randomTokens(21, 200);
    const sequence = decoder.submit(prompt, { maxNewTokens: 9, reserve: 200, endTokens: [] });
    given(prompt);
    for (const length of [13, 0, 5]) {
      pieces.push((await collect(decoder)).get(sequence) as Segment);
      const text = randomTokens(length, 201 + length);
      given(text);
      decoder.extend(sequence, text, { maxNewTokens: 9, endTokens: [] });
    }
    pieces.push((await collect(decoder)).get(sequence) as Segment);

    const tokens = Int32Array.from(pieces.flatMap((piece) => [...piece.tokens]));
    const recorded = pieces.flatMap((piece) => [...piece.logProbs]);
    const [score] = await policy.score([{ tokens }]);
    const scored = tokens.map((_, index) => Number(recorded[index] !== 0));
    expect(Array.from(score?.logProbs ?? [], (logProb, index) => (scored[index] ? logProb : 0))).toEqual(
      recorded,
    );
    expect(scored.filter(Boolean)).toHaveLength(36);
  });
});

describe("training", () => {
  const batch = [40, 7, 90, 23].map((length, index) => ({
    tokens: randomTokens(length, 300 + index),
    policyMask: Array.from({ length }, (_, position) => Number(position > 3)),
    oldLogProbs: Array.from({ length }, () => -3),
    advantages: [1, -1, 0.5, -2][index] as number,
  }));

  async function train(count: number, compute: "f32" | "bf16", microBatchTokens: number) {
    engine.threads = count;
    using policy = await smallPolicy("qwen3", { compute });
    const losses: number[] = [];
    for (let step = 0; step < 3; step++) {
      losses.push((await policy.forwardBackward(batch, { policy: {} }, { microBatchTokens })).loss);
      await policy.step({ learningRate: 1e-2 });
    }
    const hash = createHash("sha256");
    for (const { name } of policy.parameters) hash.update(await policy.weight(name));
    return { losses, weights: hash.digest("hex") };
  }

  test.for(["f32", "bf16"] as const)("%s: same seed, same run, with one thread or two", async (compute) => {
    const once = await train(1, compute, 8192);
    expect(await train(1, compute, 8192)).toEqual(once);
    expect(await train(2, compute, 8192)).toEqual(once);
    expect(once.losses[2]).not.toBe(once.losses[0]);
  });

  test("micro-batches change losses by no more than rounding, over several steps", async () => {
    const whole = await train(2, "f32", 8192);
    const parts = await train(2, "f32", 1);
    for (const [step, loss] of whole.losses.entries()) expect(parts.losses[step]).toBeCloseTo(loss, 4);
  });

  test("a gradient added up over calls with the totals of all is that of one call", async () => {
    using policy = await smallPolicy("llama");
    const aggregations = [
      { aggregation: "token-mean" },
      { aggregation: "sequence-mean-token-mean" },
      { aggregation: "sequence-sum" },
      { aggregation: "fixed-length", fixedLength: 50 },
    ] as const;
    for (const aggregation of aggregations) {
      const objective = { policy: aggregation };
      const whole = await policy.forwardBackward(batch, objective);
      const expected = await policy.gradient("model.norm.weight");
      await policy.zeroGradients();
      let loss = 0;
      const totals = batchTotals(batch);
      for (const sequence of batch)
        loss += (await policy.forwardBackward([sequence], objective, { totals })).loss;
      const found = await policy.gradient("model.norm.weight");
      await policy.zeroGradients();
      expect(loss).toBeCloseTo(whole.loss, 6);
      const scale = Math.max(...expected.map(Math.abs));
      for (const [index, value] of expected.entries()) {
        expect(Math.abs((found[index] as number) - value)).toBeLessThan(1e-5 * scale);
      }
    }
  });
});

test("rows of the embedding beyond the tokenizer do not exist", async () => {
  // 150 rows, of which the tokenizer knows 6.
  using policy = await smallPolicy("qwen2", { tokenizer: { json: wordTokenizer() } });
  expect(policy.config).toMatchObject({ vocabulary: 150, tokenLimit: 6 });
  const texts = await policy.generate([[1], [2], [3]], { temperature: 50, maxNewTokens: 100, endTokens: [] });
  const written = texts.flatMap(({ tokens }) => [...tokens]);
  expect(new Set(written)).toEqual(new Set([0, 1, 2, 3, 4, 5]));

  const logits = await policy.logits([1, 2, 3]);
  expect(logits).toHaveLength(3 * 6);
  const [score] = await policy.score([{ tokens: [1, 2, 3] }]);
  const row = Array.from(logits.subarray(6, 12), Math.exp);
  const probability = (row[3] as number) / row.reduce((a, b) => a + b);
  expect(score?.logProbs[2]).toBeCloseTo(Math.log(probability), 4);
  await expect(policy.score([{ tokens: [1, 6] }])).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
});
