import { expect, test } from "vitest";
import type { WholeChoice } from "../../lib/serving/replies.js";
import { wholeReply } from "../../lib/serving/reply.js";

test("an answer as long as the longest context is gathered, piece by piece", async () => {
  const length = 200_000;
  const sent: WholeChoice[][] = [];
  const form = {
    opening: () => undefined,
    piece: () => ({}),
    usage: () => ({}),
    whole: (choices: readonly WholeChoice[]) => sent.push([...choices]) as unknown as object,
  };
  const reply = wholeReply(form, 1, () => undefined);
  const [tokens, logProbs] = [new Int32Array(length).fill(7), new Float32Array(length).fill(-0.5)];
  reply.piece({ choice: 0, text: "a", tokens, logProbs, finish: null });
  reply.piece({ choice: 0, text: "b", tokens, logProbs, finish: "length" });
  await reply.end(1);
  expect(sent[0]?.[0]).toMatchObject({ text: "ab", finish: "length" });
  expect(sent[0]?.[0]?.tokens.length).toBe(2 * length);
  expect(sent[0]?.[0]?.logProbs.at(-1)).toBe(-0.5);
});
