import { expect, test } from "vitest";
import { loadAddon } from "../../lib/native/load.js";
import { difference, readGolden } from "../support/golden.js";
import { describeShared } from "../support/shared.js";

describeShared("sampling filters", () => {
  const { cases, logit_sets: logitSets } = readGolden("golden", "scalars", "sampling.json");
  const offered = new Set(["temperature", "top_k", "top_p", "min_p"]);
  // biome-ignore lint/suspicious/noExplicitAny: golden JSON
  const withoutPenalties = cases.filter(({ settings }: any) =>
    Object.keys(settings).every((name) => offered.has(name)),
  );
  // biome-ignore lint/suspicious/noExplicitAny: golden JSON
  const named = withoutPenalties.map((golden: any) => ({
    ...golden,
    name: `${golden.logits} ${JSON.stringify(golden.settings)}`,
  }));

  test("all cases but those with penalties, which are not offered", () => {
    const penalties = cases.filter(
      // biome-ignore lint/suspicious/noExplicitAny: golden JSON
      ({ settings }: any) => Object.keys(settings).some((name) => name.endsWith("_penalty")),
    );
    expect(withoutPenalties.length + penalties.length).toBe(cases.length);
    expect(withoutPenalties.length).toBeGreaterThan(20);
  });

  // biome-ignore lint/suspicious/noExplicitAny: golden JSON
  test.for(named)("$name", ({ logits, settings, ...golden }: any) => {
    const found = loadAddon().filterProbabilities(Float32Array.from(logitSets[logits]), {
      temperature: settings.temperature ?? 1,
      topK: settings.top_k ?? 0,
      topP: settings.top_p ?? 1,
      minP: settings.min_p ?? 0,
    });
    const expected: number[] = golden.transformers;
    if (golden.transformers_kept_set_differs_in_f32) {
      const gap = found.reduce((total, p, id) => total + Math.abs(p - (expected[id] as number)), 0);
      expect(gap).toBeLessThan(0.1);
    } else if (logits === "ties" || logits === "all_equal") {
      // Which of several equal ones top-p keeps is the sort's choice.
      const sorted = (values: Iterable<number>) => Array.from(values).sort((a, b) => a - b);
      expect(difference(sorted(found), sorted(expected)).max).toBeLessThanOrEqual(1e-6);
    } else {
      expect(difference(found, expected).max).toBeLessThanOrEqual(1e-6);
    }
  });
});
