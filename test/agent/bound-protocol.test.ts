import { expect, test } from "vitest";
import { BoundProtocol } from "../../lib/agent/bound-protocol.js";
import { searchR1 } from "../../lib/agent/protocol.js";
import { rollout } from "../../lib/agent/rollout.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { type Script, ScriptedDecoder } from "../support/scripted-decoder.js";
import { bound, END, only, question } from "../support/scripted-rollout.js";

test("tags that are control tokens of the tokenizer", async () => {
  const names = ["<|end|>", "<s>", "</s>", "<i>", "</i>", "<a>", "</a>"];
  const own = byteTokenizer(names);
  const pair = (name: string) => ({ open: `<${name}>`, close: `</${name}>` });
  const protocol = new BoundProtocol(
    searchR1({
      chat: false,
      tags: { search: pair("s"), information: pair("i"), answer: pair("a") },
      observationFrame: { before: "", after: "" },
      formatPassages: (passages) => passages.map(({ text }) => text).join(" "),
      prompt: (text, hint) => [
        ...(hint === undefined ? [] : [{ text: hint, trusted: false }]),
        { text, trusted: false },
      ],
      notice: "",
    }),
    { tokenizer: own, eosTokenIds: [END] },
  );
  expect(protocol.stops).toEqual([]);
  expect(protocol.endTokens).toEqual([END, 258, 262]);
  const script: Script = ({ turn }) => ["oops</s>", "<s>q</s>", "<a>A</a>"][turn] as string;
  const decoder = new ScriptedDecoder(own, script);
  const { groups } = await rollout({
    decoder,
    retriever: { search: async () => [[{ id: "1", title: "", text: "x</i>" }]] },
    protocol,
    questions: [question("Q</s>")],
  });
  const trajectory = only({ groups });
  expect(trajectory).toMatchObject({ status: "answered", answer: "A", turns: 3 });
  expect([...trajectory.promptTokens].every((token) => token < 256)).toBe(true);
  const kinds = trajectory.spans.flatMap(({ start, end, kind }) => Array(end - start).fill(kind));
  expect(kinds.join(" ")).toBe(
    "think think think think think tag search tag " +
      "observation observation observation observation observation observation observation tag answer tag",
  );
});

test("limits that are none are refused", () => {
  expect(() => searchR1({ maxTurnTokens: 0 })).toThrow(/maxTurnTokens is 0/);
  expect(() => searchR1({ tags: { answer: { open: "<a>", close: "<a>" } } })).toThrow(
    /"<a>" is empty or used twice/,
  );
  expect(() => bound({ maxObservationTokens: 30 })).toThrow(/tags alone take 31 tokens/);
  expect(() => bound({ chat: true })).toThrow(/chat template/);
});
