import { expect, test } from "vitest";
import { BoundProtocol } from "../../lib/agent/bound-protocol.js";
import { searchR1 } from "../../lib/agent/protocol.js";
import { rollout } from "../../lib/agent/rollout.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { ScriptedDecoder } from "../support/scripted-decoder.js";

test("an exception in onProgress ends a rollout with that very exception and gives every sequence back", async () => {
  const tokenizer = byteTokenizer();
  const mine = new RangeError("mine");
  const decoder = new ScriptedDecoder(tokenizer, () => "<answer>A</answer>");
  let calls = 0;
  const running = rollout({
    decoder,
    retriever: { search: async (queries) => queries.map(() => []) },
    protocol: new BoundProtocol(searchR1({ chat: false }), { tokenizer, eosTokenIds: [256] }),
    questions: [{ id: "q", question: "Who?", goldAnswers: ["A"] }],
    groupSize: 6,
    onProgress: () => {
      calls++;
      throw mine;
    },
  });
  await expect(running).rejects.toBe(mine);
  expect(calls).toBeGreaterThan(0);
  expect(decoder.sequences.size).toBe(0);
});
