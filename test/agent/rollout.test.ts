import { describe, expect, test } from "vitest";
import { rollout } from "../../lib/agent/rollout.js";
import type { Trajectory } from "../../lib/agent/trajectory.js";
import { type Script, ScriptedDecoder } from "../support/scripted-decoder.js";
import { bound, engine, question, run, tokenizer } from "../support/scripted-rollout.js";

describe("groups", () => {
  test("every trajectory has a stream of its own, and the same one whatever the schedule", async () => {
    const script: Script = ({ turn, stream }) =>
      turn < Number(stream % 3n) ? `<search>${stream}-${turn}</search>` : `<answer>${stream}</answer>`;
    const options = { questions: ["A?", "A?", "B?"].map(question), groupSize: 4, seed: 7, step: 3 };
    const slow = async (queries: readonly string[]) => {
      await new Promise((resolve) => setTimeout(resolve, queries.length * 3));
      return engine(queries);
    };
    const { groups } = await run(script, options);
    const again = await run(script, { ...options, retriever: { search: slow }, searchConcurrency: 7 });
    expect(again.groups).toEqual(groups);
    const streams = groups.flat().map(({ key }) => key.stream);
    expect(new Set(streams).size).toBe(12);
    expect(groups.flat().every(({ key }) => key.seed === 7n)).toBe(true);
    expect(groups.map((group) => group.map(({ id }) => id))).toEqual(
      [0, 1, 2].map((group) => [0, 1, 2, 3].map((sample) => `3-${group}-${sample}`)),
    );
    const other = await run(script, { ...options, step: 4 });
    expect(other.groups.flat().some(({ key }) => streams.includes(key.stream))).toBe(false);
    const evaluation = await run(script, { ...options, purpose: "evaluation" });
    expect(evaluation.groups.flat().some(({ key }) => streams.includes(key.stream))).toBe(false);
  });

  test("a search does not hold up the others", async () => {
    let open: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const finished: number[] = [];
    const search = async (queries: readonly string[]) => {
      await gate;
      return engine(queries);
    };
    await run(
      ({ turn, stream }) => (turn === 0 && stream % 2n === 0n ? "<search>q</search>" : "<answer>A</answer>"),
      {
        groupSize: 12,
        retriever: { search },
        onProgress: ({ done, total }) => {
          expect(total).toBe(12);
          finished.push(done);
          if (done === finished.length && done > 2) open();
        },
      },
    );
    expect(finished).toEqual(Array.from({ length: 12 }, (_, i) => i + 1));
  });
});

describe("onTrajectory", () => {
  const script: Script = ({ turn, stream }) =>
    turn < Number(stream % 3n) ? "<search>q</search>" : "<answer>A</answer>";

  test("hands every trajectory out when it ends, while others are still decoded", async () => {
    const events: string[] = [];
    const handed: Trajectory[] = [];
    const decoder = new ScriptedDecoder(tokenizer, script);
    const { groups } = await rollout({
      decoder,
      retriever: { search: engine },
      protocol: bound(),
      questions: ["A?", "B?"].map(question),
      groupSize: 6,
      onProgress: ({ done }) => events.push(`${done} done`),
      onTrajectory: (trajectory) => {
        events.push(`${handed.push(trajectory)} handed out`);
        if (handed.length === 1) expect(decoder.sequences.size).toBeGreaterThan(1);
      },
    });
    expect(events).toEqual(
      Array.from({ length: 12 }, (_, i) => [`${i + 1} done`, `${i + 1} handed out`]).flat(),
    );
    expect(new Set(handed)).toEqual(new Set(groups.flat()));
  });

  test("an error that it throws ends the rollout and releases everything", async () => {
    const broken = new Error("no room");
    const decoder = new ScriptedDecoder(tokenizer, script);
    const failing = rollout({
      decoder,
      retriever: { search: engine },
      protocol: bound(),
      questions: ["A?", "B?"].map(question),
      groupSize: 6,
      onTrajectory: () => {
        throw broken;
      },
    });
    await expect(failing).rejects.toBe(broken);
    expect(decoder.sequences.size).toBe(0);
  });
});
