import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { totalmem } from "node:os";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { sharedPath } from "../support/shared.js";

interface Measured {
  phase: string;
  /** Bytes of the process, as estimated and at their most. */
  estimated: number;
  resident: number;
  /** Of the engine alone. */
  estimatedEngine: number;
  engine: number;
}

async function measure(...args: string[]): Promise<Measured> {
  const script = resolve(import.meta.dirname, "memory-child.ts");
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", "tsx", script, ...args]);
  return JSON.parse(stdout);
}

const config = sharedPath("data", "configs", "Qwen2.5-0.5B-Instruct", "config.json");

describe.runIf(process.platform === "linux")(
  "an estimate is within 10 % of what a process then takes",
  () => {
    test("the demo: rollout, reference, teacher and updates", { timeout: 300_000 }, async () => {
      const { phase, estimated, resident, estimatedEngine, engine } = await measure("demo");
      expect(phase).toBe("update");
      expect(estimatedEngine / engine).toBeGreaterThan(0.9);
      expect(estimatedEngine / engine).toBeLessThan(1.1);
      expect(estimated / resident).toBeGreaterThan(0.9);
      expect(estimated / resident).toBeLessThan(1.1);
    });

    const fits = existsSync(config) && totalmem() > 14 * 2 ** 30;
    test.runIf(fits)(
      "the shape of Qwen2.5-0.5B, trained on 8 x 128 tokens",
      { timeout: 900_000 },
      async () => {
        const { phase, estimated, resident, estimatedEngine, engine } = await measure("large", config);
        expect(phase).toBe("update");
        // Every buffer of the engine is known to the byte, some scratch aside.
        expect(estimatedEngine / engine).toBeGreaterThan(0.99);
        expect(estimatedEngine / engine).toBeLessThan(1.01);
        expect(estimated / resident).toBeGreaterThan(0.9);
        expect(estimated / resident).toBeLessThan(1.1);
        expect(resident).toBeLessThan(10 * 2 ** 30);
      },
    );
  },
);
