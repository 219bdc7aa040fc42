import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { estimateMemory, formatEstimate, worldModel, worldProtocol } from "../../../lib/index.js";
import { describeShared, sharedPath } from "../../support/shared.js";

const page = (name: string) => readFileSync(resolve(import.meta.dirname, "../../../docs", name), "utf8");
const text = page("memory.md");
const config = (size: string) =>
  JSON.parse(readFileSync(sharedPath("data", "configs", `Qwen2.5-${size}-Instruct`, "config.json"), "utf8"));

describe("docs/memory.md has the tables that formatEstimate makes", () => {
  test("the demo", () => {
    const estimate = estimateMemory(worldModel().config, {
      compute: "f32",
      threads: 2,
      decoder: { maxBatch: 400 },
      checkpointActivations: false,
      longestSequence: worldProtocol().maxTokens,
      sequences: 200,
    });
    expect(text).toContain(formatEstimate(estimate));
  });

  describeShared("models of Qwen2.5", () => {
    test.each(["0.5B", "1.5B", "3B"])("%s", (size) => {
      const estimate = estimateMemory(config(size), {
        compute: "bf16",
        threads: 2,
        sequences: 64,
        decoder: { cacheTokens: 65_536, maxBatch: 64 },
      });
      expect(text).toContain(formatEstimate(estimate));
    });
  });
});

describeShared("docs/gpu.md has what a GPU will need", () => {
  const caches = [
    [65_536, 64],
    [262_144, 256],
  ] as const;
  const options = (size: string, [cacheTokens, maxBatch]: (typeof caches)[number]) =>
    [
      config(size),
      { device: "cuda", compute: "bf16", sequences: 2560, decoder: { cacheTokens, maxBatch } },
    ] as const;

  test.each(["0.5B", "1.5B", "3B"])("%s", (size) => {
    for (const cache of caches) {
      const [model, common] = options(size, cache);
      const cells = [{}, { frozenCopy: false }, { training: false }].map(
        (more) => `${(estimateMemory(model, { ...common, ...more }).peak.bytes / 2 ** 30).toFixed(1)} GiB`,
      );
      const [tokens, sequences] = cache;
      const row = [`Qwen2.5-${size}`, `${tokens.toLocaleString("en")}, ${sequences}`, ...cells];
      expect(page("gpu.md")).toContain(`| ${row.join(" | ")} |`);
    }
  });

  test("3B by part and phase", () => {
    expect(page("gpu.md")).toContain(formatEstimate(estimateMemory(...options("3B", caches[1]))));
  });
});
