import { expect, test } from "vitest";
import { checkTrajectory } from "../../lib/agent/trajectory.js";
import { trajectoryFromJson, trajectoryToJson } from "../../lib/agent/trajectory-json.js";
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

test("a number or a word that would turn into another one is refused by its place", () => {
  const good = () =>
    JSON.parse(
      JSON.stringify({ ...trajectoryToJson(trajectoryOf(["think", "tag", "search", "tag"])), reward: 0.5 }),
    );
  expect(trajectoryFromJson(good())).toMatchObject({ step: 0, reward: 0.5 });
  const bad: [place: string, value: unknown][] = [
    ["tokens.0", "7"],
    ["tokens.1", 1.5],
    ["tokens.1", null],
    ["tokens.1", -1],
    ["tokens.1", 2 ** 31],
    ["promptTokens.0", true],
    ["promptTokens", { length: 3 }],
    ["promptTokens", "123"],
    ["logProbs.0", null],
    ["logProbs.0", "-1"],
    ["logProbs.0", 1e39],
    ["key.seed", ""],
    ["key.seed", "-1"],
    ["key.seed", " 1"],
    ["key.stream", "0x10"],
    ["key.stream", String(2n ** 64n)],
    ["key.stream", true],
    ["step", -1],
    ["group", "0"],
    ["sample", 0.5],
    ["turns", null],
    ["status", "won"],
    ["answer", 7],
    ["id", 7],
    ["reason", 7],
    ["spans.0.kind", "thought"],
    ["spans.0.end", "1"],
    ["searches.0.start", 0.5],
    ["searches.0.passages", [{ id: 1 }]],
    ["sampling.temperature", "1"],
    ["sampling.topK", null],
    ["weightsVersion", [1]],
    ["weightsVersion.0", "1"],
    ["question.goldAnswers", "Ada"],
  ];
  for (const [place, value] of bad) {
    const record = good();
    const path = place.split(".");
    const last = path.pop() as string;
    path.reduce((inner, key) => inner[key], record)[last] = value;
    expect(() => trajectoryFromJson(record), `${place}: ${JSON.stringify(value)}`).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", message: expect.stringContaining(place) }),
    );
  }
});

test("a search outside the tokens is refused", () => {
  const record = trajectoryToJson(trajectoryOf(["tag", "search", "tag"]));
  for (const [start, end] of [
    [2, 1],
    [1, 4],
  ]) {
    const searches = [{ query: "q", passages: [], start, end }];
    expect(() => trajectoryFromJson({ ...record, searches })).toThrow(/search 0 .*does not lie in/);
  }
});
