import { describe, expect, test } from "vitest";
import { BoundProtocol } from "../../lib/agent/bound-protocol.js";
import { type SearchProtocolOptions, searchR1 } from "../../lib/agent/protocol.js";
import { rollout } from "../../lib/agent/rollout.js";
import type { Trajectory } from "../../lib/agent/trajectory.js";
import { protocolSettings } from "../../lib/evaluation/evaluate.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { ScriptedDecoder } from "../support/scripted-decoder.js";

/** A token a byte. */
const tokenizer = byteTokenizer();
const [OPEN, CLOSE] = ["<information>", "</information>"];

function bound(options: SearchProtocolOptions): BoundProtocol {
  const protocol = searchR1({
    chat: false,
    maxTokens: 100_000,
    observationFrame: { before: "", after: "" },
    formatPassages: (passages) => passages.map(({ text }) => text).join("\n"),
    ...options,
  });
  return new BoundProtocol(protocol, { tokenizer, eosTokenIds: [256] });
}

const passage = (text: string, id = text): Passage => ({ id, title: "", text });

describe("where passages are cut", () => {
  const shown = (texts: string[], room: number, cutPassages: "token" | "sentence") => {
    const maxObservationTokens = OPEN.length + room + CLOSE.length;
    const tokens = bound({ maxObservationTokens, cutPassages }).observationTokens(
      texts.map((text) => passage(text)),
    );
    expect(tokens.length).toBeLessThanOrEqual(maxObservationTokens);
    const text = tokenizer.decode(tokens);
    expect(text.startsWith(OPEN) && text.endsWith(CLOSE)).toBe(true);
    return text.slice(OPEN.length, -CLOSE.length);
  };
  const text = "First one. Second one here! Third?";

  test.each([
    [text.length, text],
    [text.length - 1, "First one. Second one here!"],
    [27, "First one. Second one here!"],
    [26, "First one."],
    [10, "First one."],
    // Not even the first one fits.
    [9, "First one"],
    [1, "F"],
  ])("at a sentence, in a room of %d", (room, expected) => {
    expect(shown([text], room, "sentence")).toBe(expected);
  });

  test("at a token by default", () => {
    expect(shown([text], 26, "token")).toBe(text.slice(0, 26));
    expect(searchR1().cutPassages).toBe("token");
  });

  test("a passage of its own is a sentence of its own, and other scripts have sentences too", () => {
    expect(shown(["no full stop", "nor here"], 18, "sentence")).toBe("no full stop");
    const japanese = "東京は首都です。大阪は違います。";
    expect(shown([japanese], 3 * 12, "sentence")).toBe("東京は首都です。");
  });

  test("white space in front is no sentence: what fits of the first one is shown", () => {
    const maxObservationTokens = OPEN.length + 10 + CLOSE.length;
    const formatPassages = (passages: readonly Passage[]) =>
      passages.map(({ text }) => `\n\n${text}`).join("");
    const protocol = bound({ maxObservationTokens, cutPassages: "sentence", formatPassages });
    const shown = tokenizer.decode(protocol.observationTokens([passage("One sentence that is long.")]));
    expect(shown).toBe(`${OPEN}\n\nOne sent${CLOSE}`);
  });

  test("a text that goes on for ever costs no more than what may fit", () => {
    const endless = "A sentence of some words. ".repeat(200_000);
    const started = performance.now();
    expect(shown([endless], 400, "sentence")).toBe(endless.slice(0, 26 * 15 - 1));
    expect(performance.now() - started).toBeLessThan(2000);
    expect(shown(["x".repeat(100_000)], 400, "sentence")).toBe("x".repeat(400));
  });
});

describe("passages that come again", () => {
  const RANKED = Array.from({ length: 9 }, (_, i) => passage(`text ${i}`, `p${i}`));

  async function sample(options: SearchProtocolOptions, found = RANKED) {
    const depths = new Set<number>();
    const search = async (queries: readonly string[], topK: number) => {
      depths.add(topK);
      return queries.map(() => found.slice(0, topK));
    };
    const { groups } = await rollout({
      decoder: new ScriptedDecoder(tokenizer, ({ turn }) =>
        turn < 3 ? "<search>q</search>" : "<answer>a</answer>",
      ),
      retriever: { search },
      protocol: bound({ passagesPerSearch: 2, maxSearches: 3, ...options }),
      questions: [{ id: "q", question: "Who?", goldAnswers: ["a"] }],
      groupSize: 2,
    });
    const shown = groups
      .flat()
      .map(({ searches }) => searches.map(({ passages }) => passages.map(({ id }) => id)));
    return { trajectories: groups.flat(), shown, depths: [...depths] };
  }

  const texts = ({ tokens, spans }: Trajectory) =>
    spans
      .filter(({ kind }) => kind === "observation")
      .map(({ start, end }) =>
        tokenizer.decode(tokens.subarray(start, end)).slice(OPEN.length, -CLOSE.length),
      );

  test("are shown again by default", async () => {
    const { shown, depths } = await sample({});
    expect(depths).toEqual([2]);
    expect(shown).toEqual(Array(2).fill(Array(3).fill(["p0", "p1"])));
  });

  test("or skipped for the next best, in each trajectory by itself", async () => {
    const { shown, depths, trajectories } = await sample({ repeatedPassages: "skip" });
    expect(depths).toEqual([6]);
    expect(shown).toEqual(
      Array(2).fill([
        ["p0", "p1"],
        ["p2", "p3"],
        ["p4", "p5"],
      ]),
    );
    for (const trajectory of trajectories) {
      expect(texts(trajectory)).toEqual(["text 0\ntext 1", "text 2\ntext 3", "text 4\ntext 5"]);
    }
  });

  test("are not skipped if the limit had cut them off: those were never shown", async () => {
    // Room for the first passage and a piece of the second, then for the first alone.
    for (const [room, expected] of [
      [
        10,
        [
          ["p0", "p1"],
          ["p2", "p3"],
          ["p4", "p5"],
        ],
      ],
      [6, [["p0"], ["p1"], ["p2"]]],
      [3, [["p0"], ["p1"], ["p2"]]],
    ] as const) {
      const maxObservationTokens = OPEN.length + room + CLOSE.length;
      const { shown, trajectories } = await sample({ repeatedPassages: "skip", maxObservationTokens });
      expect(shown[0]).toEqual(expected);
      const [first] = texts(trajectories[0] as Trajectory);
      expect(first).toBe("text 0\ntext 1".slice(0, room));
    }
  });

  test("until there are none left, and not twice in one search", async () => {
    const few = [RANKED[0], RANKED[0], RANKED[1], RANKED[2]] as Passage[];
    const { shown, trajectories } = await sample({ repeatedPassages: "skip" }, few);
    expect(shown[0]).toEqual([["p0", "p1"], ["p2"], []]);
    expect(texts(trajectories[0] as Trajectory)).toEqual(["text 0\ntext 1", "text 2", ""]);
    expect(trajectories[0]?.status).toBe("answered");
  });
});

test.each([{ cutPassages: "word" }, { repeatedPassages: "drop" }])("%j is refused", (options) => {
  expect(() => searchR1(options as object)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
});

test("both choices are settings of an evaluation", () => {
  const hash = (options: SearchProtocolOptions) => protocolSettings(searchR1(options)).promptHash;
  const hashes = [{}, { cutPassages: "sentence" }, { repeatedPassages: "skip" }] as const;
  expect(new Set(hashes.map(hash)).size).toBe(3);
});
