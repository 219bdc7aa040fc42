import { describe, expect, test } from "vitest";
import type { JsonObject } from "../../lib/policy/json-file.js";
import { createTokenizer, type Tokenizer } from "../../lib/policy/tokenizer.js";
import {
  addedTokens,
  byteLevelTokenizer,
  metaspaceTokenizer,
  unigramTokenizer,
  wordTokenizer,
} from "../support/small-tokenizers.js";

const trusted = (tokenizer: Tokenizer, text: string) => tokenizer.encodePrompt([{ text, trusted: true }]);
const bytesOf = (tokenizer: Tokenizer, ids: readonly number[]) => {
  const { bytes, offsets } = tokenizer.tokenBytes();
  return Buffer.concat(ids.map((id) => bytes.subarray(offsets[id], offsets[id + 1]))).toString("utf8");
};

// Expected ids: Hugging Face tokenizers 0.23.2 (Python) on the same files, without special tokens.
describe("ids are those of the reference implementation", () => {
  test.each<[string, JsonObject, [text: string, ids: number[]][]]>([
    [
      "byte-level BPE",
      byteLevelTokenizer(),
      [
        ["the the", [257, 258]],
        ["it's the  end\n", [105, 116, 39, 115, 258, 32, 32, 101, 110, 100, 10]],
        ["e\u0301\ufeff\u0085x", [263, 239, 187, 191, 194, 133, 120]],
        ["<|im_start|>the<|im_end|>", [265, 257, 266]],
        ["<tool>the</tool>", [267, 257, 60, 47, 116, 111, 111, 108, 62]],
        ["東😀", [230, 157, 177, 240, 159, 152, 128]],
      ],
    ],
    [
      "Metaspace, always",
      metaspaceTokenizer("always", false),
      [
        ["ab c", [268, 269]],
        ["ab cab c", [268, 269, 270]],
        [" ab", [268]],
        ["xé", [259, 123, 198, 172]],
        ["c<s>c", [269, 1, 269]],
      ],
    ],
    [
      "Metaspace, split",
      metaspaceTokenizer("always", true),
      [
        ["ab cab c", [268, 269, 267, 269]],
        ["  ab", [259, 268]],
        ["c<s>c", [269, 1, 269]],
      ],
    ],
    [
      "Metaspace, first",
      metaspaceTokenizer("first", false),
      [
        ["ab c", [268, 269]],
        ["c<s>c", [269, 1, 262]],
        ["<s>c", [1, 262]],
      ],
    ],
    [
      "Metaspace, never",
      metaspaceTokenizer("never", false),
      [
        ["ab c", [270]],
        [" ab", [268]],
        ["c<s>c", [262, 1, 262]],
      ],
    ],
    [
      "Unigram",
      unigramTokenizer(),
      [
        ["cat dogs.", [2, 3, 4, 5]],
        ["cat bird dog", [2, 1, 3]],
        ["bird fish", [1, 1, 4, 1]],
        ["cat<s>cat", [2, 0, 2]],
      ],
    ],
    [
      "WordLevel",
      wordTokenizer(),
      [
        ["cat dog", [2, 3]],
        ["cat\u00a0bird\u0085dog\ufeff", [2, 1, 1]],
        ["é __proto__ <s> cat", [4, 5, 0, 2]],
        ["cat<s>dog", [2, 0, 3]],
      ],
    ],
  ])("%s", (_name, json, cases) => {
    const tokenizer = createTokenizer(json);
    for (const [text, ids] of cases) expect(trusted(tokenizer, text)).toEqual(ids);
  });
});

describe("untrusted text", () => {
  const tokenizers = {
    byteLevel: byteLevelTokenizer(),
    metaspace: metaspaceTokenizer("always", false),
    unigram: unigramTokenizer(),
    words: wordTokenizer(),
  };

  test.each(Object.entries(tokenizers))("never becomes a control token: %s", (_name, json) => {
    const tokenizer = createTokenizer(json);
    expect(tokenizer.addedTokens.length).toBeGreaterThan(0);
    for (const token of tokenizer.addedTokens) {
      for (const text of [
        token,
        ` ${token} `,
        `the${token}the`,
        token + token,
        `${token.slice(0, 3)}${token}`,
      ]) {
        expect(tokenizer.encodeText(text).filter((id) => tokenizer.isControl(id))).toEqual([]);
        expect(trusted(tokenizer, text).some((id) => tokenizer.isControl(id))).toBe(true);
        const segments = [{ text, trusted: false }];
        expect(tokenizer.encodePrompt(segments).filter((id) => tokenizer.isControl(id))).toEqual([]);
      }
    }
  });

  test("does not combine with trusted text to one either", () => {
    const tokenizer = createTokenizer(byteLevelTokenizer());
    for (let cut = 1; cut < "<|im_end|>".length; cut++) {
      const [left, right] = ["<|im_end|>".slice(0, cut), "<|im_end|>".slice(cut)];
      for (const isTrusted of [true, false]) {
        const ids = tokenizer.encodePrompt([
          { text: left, trusted: isTrusted },
          { text: right, trusted: !isTrusted },
        ]);
        expect(ids).toEqual(tokenizer.encodeText("<|im_end|>"));
      }
    }
  });

  test("is encoded as one with the trusted text around it, merges over the border included", () => {
    const tokenizer = createTokenizer(byteLevelTokenizer());
    const segments = [
      { text: "<|im_start|> t", trusted: true },
      { text: "h", trusted: false },
      { text: "e<|im_end|>", trusted: true },
    ];
    expect(tokenizer.encodePrompt(segments)).toEqual([265, 258, 266]);
  });

  test("a control token may be written in two trusted pieces", () => {
    const tokenizer = createTokenizer(byteLevelTokenizer());
    const pieces = ["<|im_", "", "end|>"].map((text) => ({ text, trusted: true }));
    expect(tokenizer.encodePrompt(pieces)).toEqual([266]);
  });

  test("of control tokens that start alike the longest counts", () => {
    const json = byteLevelTokenizer();
    const tokenizer = createTokenizer({
      ...json,
      added_tokens: addedTokens(["<a>", "<a><b>", "<a><b"], 264),
    });
    expect(trusted(tokenizer, "<a><b><a><b<a>")).toEqual([265, 266, 264]);
  });

  test("without added tokens there is nothing to guard", () => {
    const tokenizer = createTokenizer({ ...byteLevelTokenizer(), added_tokens: [] });
    expect(trusted(tokenizer, "the")).toEqual([257]);
    expect(tokenizer.addedTokens).toEqual([]);
  });
});

describe("the start of a sequence", () => {
  const config = { bos_token: "<s>", eos_token: { content: "</s>" }, add_bos_token: true };
  const tokenizer = createTokenizer(metaspaceTokenizer("first", false), config);

  test("BOS is only there when asked for", () => {
    expect(tokenizer).toMatchObject({ bosTokenId: 1, eosTokenIds: [2], addsBos: true });
    expect(tokenizer.encodePrompt([{ text: "ab", trusted: false }])).toEqual([268]);
    expect(tokenizer.encodePrompt([{ text: "ab", trusted: false }], { bos: true })).toEqual([1, 268]);
    expect(tokenizer.encodeText("ab")).toEqual([267]);
    expect(() => createTokenizer(metaspaceTokenizer("first", false)).encodePrompt([], { bos: true })).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT" }),
    );
  });

  test("continued text gets the prefix space only where the tokenizer puts it everywhere", () => {
    const segments = [{ text: "ab", trusted: true }];
    expect(tokenizer.encodePrompt(segments, { atStart: false })).toEqual([267]);
    expect(createTokenizer(metaspaceTokenizer("always", false)).encodeText("ab")).toEqual([268]);
  });

  test("addsBos is read from the post-processor when the config does not say", () => {
    const post_processor = {
      type: "TemplateProcessing",
      single: [{ SpecialToken: { id: "<s>", type_id: 0 } }],
    };
    const json = { ...metaspaceTokenizer("first", false), post_processor };
    expect(createTokenizer(json, { bos_token: "<s>" }).addsBos).toBe(true);
    expect(createTokenizer(json, { bos_token: "</s>" }).addsBos).toBe(false);
    expect(createTokenizer(json).addsBos).toBe(false);
  });
});

describe("decode and tokenBytes", () => {
  test("are lossless: no clean-up, a byte order mark and spaces kept", () => {
    const tokenizer = createTokenizer(byteLevelTokenizer());
    for (const text of ["who ? 1 , 2 'm do n't", "\ufeffx", "  a \n\n", "東京 😀 é", "\0\u0001"]) {
      expect(tokenizer.decode(tokenizer.encodeText(text))).toBe(text);
      expect(bytesOf(tokenizer, tokenizer.encodeText(text))).toBe(text);
    }
    expect(tokenizer.decode([])).toBe("");
  });

  test("a character cut at the end becomes U+FFFD, one cut in the middle of a call is whole", () => {
    const tokenizer = createTokenizer(byteLevelTokenizer());
    const ids = tokenizer.encodeText("a😀b");
    expect(tokenizer.decode(ids)).toBe("a😀b");
    expect(tokenizer.decode(ids.slice(0, 3))).toBe("a\ufffd");
    expect(tokenizer.decode(Int32Array.from(ids))).toBe("a😀b");
  });

  test("special tokens have no text, other added tokens have theirs", () => {
    const tokenizer = createTokenizer(byteLevelTokenizer());
    expect(tokenizer.decode([265, 257, 267, 266])).toBe("the<tool>");
    expect([263, 264, 265, 266, 267].map((id) => tokenizer.isControl(id))).toEqual([
      false,
      true,
      true,
      true,
      true,
    ]);
  });

  test("the space before the first word goes only when the ids start a sequence", () => {
    for (const json of [metaspaceTokenizer("always", false), metaspaceTokenizer("first", false)]) {
      const tokenizer = createTokenizer(json);
      const ids = trusted(tokenizer, "ab c é");
      expect(tokenizer.decode(ids)).toBe(" ab c é");
      expect(tokenizer.decode(ids, { fromStart: true })).toBe("ab c é");
      expect(tokenizer.decode([1, ...ids], { fromStart: true })).toBe("ab c é");
    }
    const never = createTokenizer(metaspaceTokenizer("never", false));
    expect(never.decode(trusted(never, " ab"), { fromStart: true })).toBe(" ab");
  });

  test("words are set apart by the space before them; unknown words are seen", () => {
    const tokenizer = createTokenizer(wordTokenizer());
    const ids = tokenizer.encodeText("cat bird é");
    expect(tokenizer.decode(ids)).toBe(" cat <unk> é");
    expect(tokenizer.isControl(1)).toBe(false);
    expect(tokenizer.decode(ids, { fromStart: true })).toBe("cat <unk> é");
    const unigram = createTokenizer(unigramTokenizer());
    expect(unigram.decode(unigram.encodeText("cat dogs. bird"))).toBe(" cat dogs.<unk>");
  });

  test.each([-1, 268, 1.5, Number.NaN])("id %d does not exist", (id) => {
    const tokenizer = createTokenizer(byteLevelTokenizer());
    expect(tokenizer.size).toBe(268);
    expect(() => tokenizer.decode([257, id])).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });

  test("offsets span the bytes", () => {
    const { bytes, offsets } = createTokenizer(byteLevelTokenizer()).tokenBytes();
    expect(offsets).toHaveLength(269);
    expect(offsets[268]).toBe(bytes.length);
    expect(offsets[268] === offsets[266]).toBe(false);
    expect(offsets[267]).toBe(offsets[264]);
  });
});
