import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  TINY_JUDGE,
  TINY_QUESTIONS,
  TINY_RETRIEVER,
  tinyPolicy,
} from "../../examples/own-loop/tiny-world.js";
import { estimateConfiguration } from "../../lib/config/estimate.js";
import { checkConfiguration } from "../../lib/config/read.js";
import { ConfigurationSource } from "../../lib/config/source.js";
import { starterConfiguration } from "../../lib/config/starter.js";
import { trainerOptions } from "../../lib/config/trainer-options.js";
import { Policy } from "../../lib/policy/policy.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-estimate-"));
  using policy = await tinyPolicy();
  await policy.save(join(folder, "model"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const read = (more: string, training = "") =>
  checkConfiguration(
    ConfigurationSource.parse(
      `model: { folder: model, compute: f32 }
data: { questions: train.jsonl }
retriever: { kind: memory, corpus: corpus.jsonl }
protocol: { chat: false, prompt: "{question}", maxTokens: 64, maxTurnTokens: 6, maxObservationTokens: 12 }
training: { steps: 3, questionsPerStep: 8${training} }
${more}`,
      join(folder, "train.yaml"),
    ),
  );

describe("the estimate without the model is the trainer's own", () => {
  const judge = `judge: { kind: chat, baseURL: "http://127.0.0.1:1/v1", model: x }\n`;
  test.each([
    ["plain GRPO", "", ""],
    ["with a judge", judge, ""],
    ["without a frozen copy", "", ", kl: false, measureEvery: 0"],
    [
      "with sizes of its own",
      judge,
      ", decoder: { maxBatch: 3, cacheTokens: 512 }, microBatchTokens: 128, checkpointActivations: false",
    ],
    ["with a small teacher", judge, ", distillation: { maxTeacherTokens: 70 }"],
  ])("%s", async (_what, more, training) => {
    const configuration = read(more, training);
    using policy = await Policy.load(join(folder, "model"), { compute: "f32" });
    const trainer = new HindSearchTrainer(
      trainerOptions(configuration, {
        policy,
        retriever: TINY_RETRIEVER,
        questions: TINY_QUESTIONS,
        ...(more !== "" && { judge: TINY_JUDGE }),
      }),
    );
    const { phases, peak } = await estimateConfiguration(configuration);
    const expected = trainer.memory();
    expect(peak.phase).toBe(expected.peak.phase);
    for (const [phase, { bytes }] of Object.entries(expected.phases)) {
      // The file does not say how many ids the tokenizer has, nor the engine its threads.
      expect(phases[phase as keyof typeof phases]?.bytes, phase).toBeGreaterThan(0.99 * bytes);
      expect(phases[phase as keyof typeof phases]?.bytes, phase).toBeLessThan(1.01 * bytes);
    }
  });
});

test("the starter is a configuration", () => {
  const source = ConfigurationSource.parse(starterConfiguration(), join(folder, "hindsearch.yaml"));
  const { values } = checkConfiguration(source, { environment: {} });
  expect(values).toMatchObject({
    model: { folder: "Qwen2.5-0.5B-Instruct" },
    judge: { kind: "chat" },
    training: { groupSize: 5 },
  });
});

test("every key that the starter shows has its text and its default from the schema", () => {
  const text = starterConfiguration();
  expect(text).toMatch(/# Trajectories per question, G\.\n {2}# groupSize: 5\n/);
  expect(text).toMatch(/# Checkpoint after every so many steps.*\n {2}# checkpointEvery: 1\n/);
  for (const line of text.split("\n")) expect(line.trim()).not.toBe("#  ");
});
