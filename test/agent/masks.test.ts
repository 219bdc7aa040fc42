import { expect, test } from "vitest";
import { countMask, countPolicyTokens, policyMask, scopeMask } from "../../lib/agent/masks.js";
import { trajectoryOf } from "../support/trajectory.js";

const trajectory = trajectoryOf([
  "think",
  "tag",
  "search",
  "search",
  "tag",
  "observation",
  "observation",
  "think",
  "notice",
  "tag",
  "search",
  "tag",
  "observation",
  "tag",
  "answer",
  "tag",
  "think",
]);
const text = (mask: Uint8Array) => [...mask].join("");

test("the policy mask leaves out observations and notices", () => {
  expect(text(policyMask(trajectory))).toBe("11111001011101111");
  expect(countMask(policyMask(trajectory))).toBe(13);
  expect(countPolicyTokens(trajectory)).toBe(13);
});

test("every scope is a part of the policy mask", () => {
  expect(text(scopeMask(trajectory, "search"))).toBe("00110000001000000");
  expect(text(scopeMask(trajectory, "search-with-tags"))).toBe("01111000011100000");
  expect(text(scopeMask(trajectory, "think"))).toBe("10000001000000001");
  expect(text(scopeMask(trajectory, "answer"))).toBe("00000000000000100");
  expect(text(scopeMask(trajectory, "all"))).toBe(text(policyMask(trajectory)));
});

test("a trajectory of observations only has empty masks", () => {
  const foreign = trajectoryOf(["observation", "notice"]);
  for (const scope of ["search", "search-with-tags", "think", "answer", "all"] as const) {
    expect(countMask(scopeMask(foreign, scope))).toBe(0);
  }
});
