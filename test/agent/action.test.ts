import { describe, expect, test } from "vitest";
import { type ActionTags, parseTurn } from "../../lib/agent/action.js";

const TAGS: ActionTags = {
  search: { open: { text: "<search>" }, close: { text: "</search>" } },
  answer: { open: { text: "<answer>" }, close: { text: "</answer>" } },
};

/** Parses a turn given as the texts of its tokens; `null` is a control token. */
function parse(pieces: (string | Uint8Array | null)[], tags = TAGS) {
  const bytes = pieces.map((piece) => (piece === null ? new Uint8Array() : Buffer.from(piece as string)));
  const turn = parseTurn(Int32Array.from(pieces.keys()), (token) => bytes[token] ?? new Uint8Array(), tags);
  expect(turn.spans[0]?.start ?? 0).toBe(0);
  expect(turn.spans.at(-1)?.end ?? 0).toBe(pieces.length);
  const kinds = turn.spans.flatMap(({ start, end, kind }) => Array<string>(end - start).fill(kind));
  return { action: turn.action, kinds: kinds.join(" "), inner: [turn.inner.start, turn.inner.end] };
}

describe("parseTurn", () => {
  test("a search behind its reasoning", () => {
    expect(parse(["Hm", ".", "<search>", " who", " wrote", " it", "</search>"])).toEqual({
      action: { kind: "search", text: "who wrote it" },
      kinds: "think think tag search search search tag",
      inner: [3, 6],
    });
  });

  test("an answer", () => {
    expect(parse(["<answer>", "Be", "ijing", "</answer>"])).toEqual({
      action: { kind: "answer", text: "Beijing" },
      kinds: "tag answer answer tag",
      inner: [1, 3],
    });
  });

  test("tags spread over tokens, and tokens that straddle a border are tag", () => {
    expect(parse(["x<", "sea", "rch", ">who", " is", " it<", "/search", ">"])).toEqual({
      action: { kind: "search", text: "who is it" },
      kinds: "tag tag tag tag search tag tag tag",
      inner: [4, 5],
    });
  });

  test("what the last token holds behind the closing tag is not read, and the token stays", () => {
    expect(parse(["<search>", "a", "</search>\n\nthen"])).toMatchObject({
      action: { kind: "search", text: "a" },
      kinds: "tag search tag",
    });
  });

  test("tags and query in one token: the query has no token of its own", () => {
    expect(parse(["so ", "<search>a</search>"])).toEqual({
      action: { kind: "search", text: "a" },
      kinds: "think tag",
      inner: [2, 2],
    });
  });

  test("the first opening tag that has its own closing tag wins", () => {
    expect(parse(["<answer>", "x", "<search>", "y", "</search>"]).action).toEqual({
      kind: "search",
      text: "y",
    });
    expect(parse(["<search>", "x", "<answer>", "y", "</answer>"]).action).toEqual({
      kind: "answer",
      text: "y",
    });
    expect(parse(["<search>", "x", "<search>", "y", "</search>"]).action).toEqual({
      kind: "search",
      text: "x<search>y",
    });
  });

  test.each([
    [["just", " text"]],
    [["a", "</search>"]],
    [["<search>", "never closed"]],
    [["<answer>", "a", "</search>"]],
    [["</search>", "a", "<search>"]],
    [["<search>", " \n", "</search>"]],
    [["<answer>", "</answer>"]],
    [["<Search>", "a", "</Search>"]],
  ])("%j is no action", (pieces) => {
    expect(parse(pieces)).toEqual({
      action: { kind: "none" },
      kinds: pieces.map(() => "think").join(" "),
      inner: [0, 0],
    });
  });

  test("an empty turn has no spans", () => {
    expect(parse([])).toEqual({ action: { kind: "none" }, kinds: "", inner: [0, 0] });
  });

  test("a control token is a wall that no tag crosses, and inside it has no text", () => {
    expect(parse(["<sea", null, "rch>", "a", "</search>"]).action).toEqual({ kind: "none" });
    expect(parse(["<search>", "a", null, "b", "</search>"])).toEqual({
      action: { kind: "search", text: "ab" },
      kinds: "tag search search search tag",
      inner: [1, 4],
    });
  });

  test("a query of characters that are spread over tokens", () => {
    const bytes = Buffer.from("北京🙂");
    expect(
      parse(["<search>", bytes.subarray(0, 4), bytes.subarray(4, 8), bytes.subarray(8), "</search>"]),
    ).toEqual({
      action: { kind: "search", text: "北京🙂" },
      kinds: "tag search search search tag",
      inner: [1, 4],
    });
  });

  test("a character cut by the closing tag becomes a replacement character, the tokens stay", () => {
    const half = Buffer.from("🙂").subarray(0, 2);
    expect(parse(["<search>", "a", half, "</search>"]).action).toEqual({ kind: "search", text: "a\ufffd" });
  });

  test("tags that are control tokens count by id, their text does not", () => {
    const tags: ActionTags = {
      search: { open: { text: "<s>", id: 0 }, close: { text: "</s>", id: 2 } },
      answer: { open: { text: "<a>", id: 100 }, close: { text: "</a>", id: 101 } },
    };
    expect(parse([null, "<a>b</a>", null], tags)).toEqual({
      action: { kind: "search", text: "<a>b</a>" },
      kinds: "tag search tag",
      inner: [1, 2],
    });
    expect(
      parse(["<s>", "b", "</s>"], { ...tags, search: { ...tags.search, open: { text: "<s>", id: 9 } } })
        .action,
    ).toEqual({
      kind: "none",
    });
  });
});
