import { describe, expect, test } from "vitest";
import { trajectoryFromJson } from "../../lib/agent/trajectory-json.js";
import type { RunDirectory } from "../../lib/runs/run.js";
import { recordStep, type StepMetrics } from "../../lib/training/record.js";
import type { TrainingSample } from "../../lib/training/samples.js";
import { trajectoryRecord } from "../../lib/training/trajectory-record.js";
import { sampleOf } from "./samples.js";

/** Token 100 is "a", 101 the first two bytes of "€", 102 its last byte, 103 no text at all, the others nothing. */
const BYTES = [[0x61], [0xe2, 0x82], [0xac], [0xff]];
const tokenBytes = () => {
  const lengths = Array.from({ length: 2_200 }, (_, id) => BYTES[id - 100]?.length ?? 0);
  const offsets = Uint32Array.of(0, ...lengths);
  for (let id = 1; id < offsets.length; id++) offsets[id] = (offsets[id] ?? 0) + (offsets[id - 1] ?? 0);
  return { bytes: Uint8Array.from(BYTES.flat()), offsets };
};
const DETAILS = { tokenizer: { tokenBytes }, scope: "search", clamp: [0, 0.5] } as const;

describe("the line of a trajectory", () => {
  const line = (sample: TrainingSample) => JSON.parse(JSON.stringify(trajectoryRecord(sample, 3, DETAILS)));

  test("is read back as the trajectory, with what training made of it", () => {
    const sample = sampleOf(
      { id: "3-0-0", step: 3 },
      { components: { exactMatch: 0 }, critique: { status: "ok", text: "x" } },
    );
    expect(trajectoryFromJson(line(sample))).toMatchObject(sample.trajectory);
    expect(line(sample)).toMatchObject({
      version: 2,
      step: 3,
      reward: 0,
      components: { exactMatch: 0 },
      advantage: -0.5,
      critique: { status: "ok", text: "x" },
    });
  });

  test("says what every token of the policy says, characters and broken bytes included", () => {
    // think, tag, search, search, tag, observation, think: seven tokens, one of them inserted.
    const tokens = Int32Array.of(100, 101, 102, 103, 101, 100, 100);
    const { pieces } = line(sampleOf({ tokens }));
    expect(pieces).toEqual(["a", "", "€", "\uFFFD", "\uFFFD", "a"]);
  });

  test("has teacher, reference and clamped weight for the tokens of the scope alone", () => {
    // Student log-probs of the two query tokens: -3/8 and -4/8.
    const sample = sampleOf(
      {},
      {
        teacherLogProbs: Float32Array.of(0, 0, -1 / 8, 0.25, 0, 0, 0),
        referenceLogProbs: Float32Array.of(-1, -1, -0.123456789, -2, -1, 0, -1),
      },
    );
    expect(line(sample).signal).toEqual({
      tokens: [2, 3],
      teacher: [-0.125, 0.25],
      weights: [0.25, 0.5],
      reference: [-0.12346, -2],
    });
  });

  test("has no columns that nobody measured", () => {
    expect(line(sampleOf())).not.toHaveProperty("signal");
    const referenceLogProbs = Float32Array.of(0, 0, -1, -2, 0, 0, 0);
    expect(line(sampleOf({}, { referenceLogProbs })).signal).toEqual({ tokens: [2, 3], reference: [-1, -2] });
    expect(line(sampleOf({}, { referenceLogProbs: Float32Array.of(0) }, ["think"]))).not.toHaveProperty(
      "signal",
    );
  });
});

test("trajectories are written in their order, a limited number of tokens at a time", async () => {
  const appended: { log: string; records: readonly Record<string, unknown>[] }[] = [];
  const append: RunDirectory["append"] = async (log, records) => {
    appended.push({ log, records });
  };
  const kinds = Array.from({ length: 2_000 }, () => "think" as const);
  // One large group and three of one: what is written at once does not go by groups.
  const groups = [40, 1, 1, 1].map((size, group) =>
    Array.from({ length: size }, (_, sample) => sampleOf({ id: `7-${group}-${sample}` }, {}, kinds)),
  );
  await recordStep({ append }, { step: 7 } as StepMetrics, groups, DETAILS);
  const trajectories = appended.filter(({ log }) => log === "trajectories").map(({ records }) => records);
  expect(trajectories.flat().map(({ id }) => id)).toEqual(
    groups.flat().map((sample) => sample.trajectory.id),
  );
  expect(Math.max(...trajectories.map(({ length }) => length))).toBe(8);
  expect(trajectories.length).toBe(6);
  expect(appended.at(-1)).toEqual({ log: "metrics", records: [{ kind: "step", step: 7 }] });
});
