import { expect, test } from "vitest";
import { checkTrajectory, trajectoryFromJson, trajectoryToJson } from "../../lib/agent/trajectory.js";
import { trajectoryOf } from "../support/trajectory.js";

test("one JSON line and back, to the bit", () => {
  const trajectory = trajectoryOf(["think", "tag", "search", "tag", "observation", "tag", "answer", "tag"], {
    answer: 'Ada "L" 北京\u2028',
    status: "answered",
    key: { seed: 2n ** 64n - 1n, stream: 12_345_678_901_234_567_890n },
  });
  trajectory.logProbs.set([-0.1, -1e-8, -17.123456789, Math.fround(-1 / 3), 0, -3.4e-38, -1e30, -0.7]);
  const line = JSON.stringify(trajectoryToJson(trajectory));
  expect(line).not.toContain("\n");
  expect(trajectoryFromJson(JSON.parse(line))).toEqual(trajectory);
});

test("every 32-bit float survives", () => {
  const bits = new Uint32Array(1);
  const value = new Float32Array(bits.buffer);
  for (let i = 0; i < 20_000; i++) {
    bits[0] = Math.imul(i + 1, 0x9e3779b1);
    if (!Number.isFinite(value[0])) continue;
    const trajectory = trajectoryOf(["think"], { logProbs: Float32Array.from(value) });
    const back = trajectoryFromJson(JSON.parse(JSON.stringify(trajectoryToJson(trajectory)))).logProbs;
    if (value[0] === 0) expect(Math.abs(back[0] as number)).toBe(0);
    else expect(back[0]).toBe(value[0]);
  }
});

test("a trajectory that contradicts itself is refused", () => {
  const bad = [
    { logProbs: Float32Array.of(-1) },
    { spans: [{ start: 0, end: 1, kind: "think" as const }] },
    { spans: [{ start: 1, end: 2, kind: "think" as const }] },
    {
      spans: [
        { start: 0, end: 1, kind: "think" as const },
        { start: 0, end: 2, kind: "think" as const },
      ],
    },
    { spans: [{ start: 0, end: 2, kind: "observation" as const }] },
  ];
  for (const part of bad) {
    expect(() => checkTrajectory(trajectoryOf(["think", "think"], part), "INTERNAL")).toThrow(
      /Trajectory 0-0-0/,
    );
  }
  for (const text of [null, 7, {}, { tokens: [] }]) {
    expect(() => trajectoryFromJson(text)).toThrow(/not a trajectory/);
  }
});
