import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { estimateMemory, formatEstimate, worldModel, worldProtocol } from "../../lib/index.js";
import { describeShared, sharedPath } from "../support/shared.js";

const text = readFileSync(resolve(import.meta.dirname, "../../docs/memory.md"), "utf8");

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
      const file = sharedPath("data", "configs", `Qwen2.5-${size}-Instruct`, "config.json");
      const estimate = estimateMemory(JSON.parse(readFileSync(file, "utf8")), {
        compute: "bf16",
        threads: 2,
        sequences: 64,
        decoder: { cacheTokens: 65_536, maxBatch: 64 },
      });
      expect(text).toContain(formatEstimate(estimate));
    });
  });
});
