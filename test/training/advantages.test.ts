import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type AdvantageOptions, groupAdvantages } from "../../lib/training/advantages.js";
import { describeShared, sharedPath } from "../support/shared.js";

const read = (...path: string[]) => JSON.parse(readFileSync(sharedPath(...path), "utf8"));

function expectClose(found: (number | null)[], expected: number[], tolerance: number): void {
  expect(found.length).toBe(expected.length);
  found.forEach((value, i) => {
    expect(
      Math.abs((value ?? Number.NaN) - (expected[i] as number)),
      `${found} against ${expected}`,
    ).toBeLessThanOrEqual(tolerance);
  });
}

/** Advantages of interleaved groups. */
function byGroup(rewards: number[], groups: number[], options: AdvantageOptions): number[] {
  const out = new Array<number>(rewards.length);
  for (const group of new Set(groups)) {
    const members = groups.flatMap((g, i) => (g === group ? [i] : []));
    const values = groupAdvantages(
      members.map((i) => rewards[i] as number),
      options,
    );
    members.forEach((i, k) => {
      out[i] = values[k] as number;
    });
  }
  return out;
}

describe("groupAdvantages", () => {
  test.each([
    [1, 1.789, -0.447],
    [2, 1.095, -0.73],
    [3, 0.73, -1.095],
    [4, 0.447, -1.789],
  ])("five samples, %i right", (right, success, failure) => {
    const rewards = Array.from({ length: 5 }, (_, i) => (i < right ? 1 : 0));
    expectClose(
      groupAdvantages(rewards),
      rewards.map((r) => (r === 1 ? success : failure)),
      5e-4,
    );
  });

  test("rewards equal up to rounding give exactly zero", () => {
    const sum = [0.1 + 0.2, 0.3, Math.fround(0.3), 0.3];
    for (const baseline of ["group-mean", "leave-one-out"] as const) {
      expect(groupAdvantages(sum, { baseline })).toEqual([0, 0, 0, 0]);
      expect(groupAdvantages(Array(8).fill(Math.fround(0.1)), { baseline })).toEqual(Array(8).fill(0));
    }
    expect(groupAdvantages([0, 0, 0])).toEqual([0, 0, 0]);
  });

  test("a group of one gives zero", () => {
    expect(groupAdvantages([0.7])).toEqual([0]);
    expect(groupAdvantages([0.7, null, null])).toEqual([0, null, null]);
  });

  test("a trajectory without reward is no member of its group", () => {
    for (const options of [{}, { normalize: false }, { baseline: "leave-one-out" }] as AdvantageOptions[]) {
      const with_ = groupAdvantages([1, null, 0, 0, null], options);
      const without = groupAdvantages([1, 0, 0], options);
      expect(with_).toEqual([without[0], null, without[1], without[2], null]);
    }
    expect(groupAdvantages([null, null])).toEqual([null, null]);
    expect(groupAdvantages([])).toEqual([]);
  });

  test("a reward that is no number is an error that names the sample", () => {
    expect(() => groupAdvantages([0, Number.NaN])).toThrow(/sample 1 is NaN/);
    expect(() => groupAdvantages([Number.POSITIVE_INFINITY, 0])).toThrow(/sample 0/);
  });
});

describeShared("advantages of other systems", () => {
  const golden = read("golden", "scalars", "advantages.json");
  // A group of one is 0 here, as in TRL; verl and Search-R1 return the reward itself, slime and OpenRLHF NaN.
  const peers: [string, AdvantageOptions, "reward of a group of one" | "zero"][] = [
    ["verl.grpo", {}, "reward of a group of one"],
    ["verl.grpo_vectorized", {}, "reward of a group of one"],
    ["search_r1.grpo", {}, "reward of a group of one"],
    ["slime.grpo (formula: (r-mean)/(std+1e-6), Bessel)", {}, "reward of a group of one"],
    [
      "openrlhf.group_norm (formula: (r-mean)/(std+1e-9), Bessel)",
      { epsilon: 1e-9 },
      "reward of a group of one",
    ],
    ["trl.scale_rewards=group", { epsilon: 1e-4 }, "zero"],
    ["trl.scale_rewards=none", { normalize: false }, "zero"],
    ["verl.grpo_no_std (Dr.GRPO)", { normalize: false }, "reward of a group of one"],
    ["verl.rloo", { baseline: "leave-one-out", normalize: false }, "reward of a group of one"],
    ["verl.rloo_vectorized", { baseline: "leave-one-out", normalize: false }, "zero"],
  ];
  test.each(peers)("%s", (peer, options, single) => {
    let compared = 0;
    for (const { note, reward, group, expected } of golden.cases) {
      if (expected[peer] === undefined) continue; // TRL has no groups of unequal size
      const sizes = group.map((g: number) => group.filter((other: number) => other === g).length);
      const ours = byGroup(reward, group, options);
      ours.forEach((value, i) => {
        if (sizes[i] === 1 && single === "reward of a group of one") {
          expect(value, note).toBe(0);
          return;
        }
        compared++;
        expect(Math.abs(value - expected[peer].f64[i]), `${note}: ${value}`).toBeLessThanOrEqual(1e-5);
      });
    }
    expect(compared).toBeGreaterThan(50);
  });

  test("a sum of weighted rewards, then normalised", () => {
    const {
      num_generations,
      reward_weights,
      rewards,
      "trl.sum_then_normalize": expected,
    } = golden.multi_reward;
    const sums = rewards.map((row: number[]) =>
      row.reduce((sum, value, k) => sum + value * reward_weights[k], 0),
    );
    const groups = sums.map((_: number, i: number) => Math.floor(i / num_generations));
    expectClose(byGroup(sums, groups, { epsilon: 1e-4 }), expected, 1e-5);
  });

  test("153 groups of a real run", () => {
    const { informative_groups } = read("data", "golden", "nemo_rl_advantages.json");
    expect(informative_groups.length).toBe(153);
    for (const { rewards, advantages, kind } of informative_groups) {
      const largest = Math.max(1, ...advantages.map(Math.abs));
      expectClose(groupAdvantages(rewards, { baseline: kind }), advantages, 1e-5 * largest); // logged from 32 bits
    }
  });

  test("one group of that run with its token-level record", () => {
    const { rollouts } = read("data", "golden", "nemo_rl_advantages.json").one_group_token_level;
    const rewards = rollouts.map(({ reward }: { reward: number }) => reward);
    const expected = rollouts.map(({ advantage }: { advantage: number }) => advantage);
    expectClose(groupAdvantages(rewards, { baseline: "leave-one-out" }), expected, 4e-5);
  });

  test("published numbers of a course", () => {
    const { raw, group_size, eps, by_std, no_std } = read("data", "golden", "cs336_numbers.json").expected
      .group_rewards;
    const groups = raw.map((_: number, i: number) => Math.floor(i / group_size));
    expectClose(byGroup(raw, groups, { epsilon: eps }), by_std, 1e-5);
    expectClose(byGroup(raw, groups, { normalize: false }), no_std, 1e-6);
  });

  test("verl, Search-R1 and TRL on the same groups", () => {
    for (const row of read("data", "golden", "grpo_peer_numbers.json").advantages) {
      const sizes = row.group.map((g: number) => row.group.filter((other: number) => other === g).length);
      // Computed in 32 bits, where the mean of nearly equal rewards is off by a share of their deviation.
      const tolerance = row.name === "near_equal" ? 1e-3 : 1e-5;
      const compare = (key: string, options: AdvantageOptions) => {
        byGroup(row.rewards, row.group, options).forEach((value, i) => {
          if (sizes[i] === 1) expect(value).toBe(0);
          else expect(Math.abs(value - row[key][i]), `${row.name} ${key}`).toBeLessThanOrEqual(tolerance);
        });
      };
      compare("verl_norm_by_std", {});
      compare("search_r1", {});
      compare("verl_no_std", { normalize: false });
      compare("verl_rloo", { baseline: "leave-one-out", normalize: false });
      compare("trl_group_formula", { epsilon: 1e-4 });
    }
  });
});
