import { expect, test } from "vitest";
import { Segments, type SequenceDecoder } from "../../lib/agent/segments.js";
import type { Segment } from "../../lib/policy/decoder.js";

/** A decoder with room for one sequence: the next one starts when the one before is released. */
function narrowDecoder() {
  const queue: number[] = [];
  let numbers = 0;
  const replies: ((segments: Segment[]) => void)[] = [];
  const decoder: SequenceDecoder = {
    submit: () => {
      queue.push(++numbers);
      return numbers;
    },
    fork: () => [],
    extend: () => {},
    release: () => {},
    next: () => new Promise((resolve) => replies.push(resolve)),
  };
  const segment = (sequence: number): Segment => ({
    sequence,
    reason: "stop",
    tokens: Int32Array.of(1),
    logProbs: Float32Array.of(-1),
    stopIndex: 0,
    overhang: 0,
    firstVersion: 1,
    lastVersion: 1,
  });
  return { decoder, replies, segment };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("what moves while an empty reply is on its way is not missed", async () => {
  const { decoder, replies, segment } = narrowDecoder();
  const segments = new Segments(decoder);
  const [first] = segments.start(Int32Array.of(1), [{}], {}, 8);
  const [second] = segments.start(Int32Array.of(1), [{}], {}, 8);
  await turn();
  replies.shift()?.([segment(1)]);
  await first?.segment;
  await turn();
  // The engine has found that nothing can go on; before that is heard, the first one makes room.
  const empty = replies.shift();
  segments.release(first?.sequence as number);
  empty?.([]);
  await turn();
  expect(replies, "next() was not called again").toHaveLength(1);
  replies.shift()?.([segment(2)]);
  expect(await second?.segment).toMatchObject({ sequence: 2 });
});

test("an empty reply is waited out until something moves", async () => {
  const { decoder, replies, segment } = narrowDecoder();
  const segments = new Segments(decoder);
  const [first] = segments.start(Int32Array.of(1), [{}], {}, 8);
  const [second] = segments.start(Int32Array.of(1), [{}], {}, 8);
  await turn();
  replies.shift()?.([segment(1)]);
  await first?.segment;
  await turn();
  replies.shift()?.([]);
  await turn();
  expect(replies, "next() is called without need").toHaveLength(0);
  segments.release(first?.sequence as number);
  await turn();
  replies.shift()?.([segment(2)]);
  expect(await second?.segment).toMatchObject({ sequence: 2 });
});
