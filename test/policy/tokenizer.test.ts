import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { JsonObject } from "../../lib/policy/json-file.js";
import { createTokenizer, loadTokenizer, type Tokenizer } from "../../lib/policy/tokenizer.js";
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

describe("files", () => {
  test("a folder with its config and template; the template file goes first", async () => {
    const folder = await mkdtemp(join(tmpdir(), "hindsearch-tokenizer-"));
    try {
      await expect(loadTokenizer(folder)).rejects.toMatchObject({
        code: "INVALID_CHECKPOINT",
        message: expect.stringContaining("save_pretrained"),
      });
      await writeFile(join(folder, "tokenizer.json"), JSON.stringify(byteLevelTokenizer()));
      expect(await loadTokenizer(folder)).toMatchObject({ chatTemplate: null, eosTokenIds: [] });
      const config = { eos_token: "<|im_end|>", bos_token: null, chat_template: "from the config" };
      await writeFile(join(folder, "tokenizer_config.json"), JSON.stringify(config));
      const tokenizer = await loadTokenizer(folder);
      expect(tokenizer).toMatchObject({ chatTemplate: "from the config", eosTokenIds: [266] });
      expect(tokenizer.bosTokenId).toBeUndefined();
      expect(tokenizer.namedTokens).toEqual({ eos_token: "<|im_end|>" });
      await writeFile(join(folder, "chat_template.jinja"), "from the file");
      expect((await loadTokenizer(folder)).chatTemplate).toBe("from the file");
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test("of several templates the default one is taken", () => {
    const chat_template = [
      { name: "tool_use", template: "a" },
      { name: "default", template: "b" },
    ];
    expect(createTokenizer(byteLevelTokenizer(), { chat_template }).chatTemplate).toBe("b");
  });

  test("added tokens that only the config knows are added", () => {
    const added_tokens_decoder = {
      266: { content: "<|im_end|>", special: true },
      268: { content: "<think>", special: false },
    };
    const tokenizer = createTokenizer(byteLevelTokenizer(), { added_tokens_decoder });
    expect(tokenizer.size).toBe(269);
    expect(trusted(tokenizer, "<think>")).toEqual([268]);
  });

  const model = (change: JsonObject, json = byteLevelTokenizer()): JsonObject => ({
    ...json,
    model: { ...(json.model as JsonObject), ...change },
  });
  const vocabulary = (change: Record<string, number>, json = byteLevelTokenizer()) =>
    model({ vocab: { ...((json.model as JsonObject).vocab as Record<string, number>), ...change } }, json);
  const without = (piece: string, json: JsonObject) => {
    const { [piece]: _gone, ...rest } = (json.model as JsonObject).vocab as Record<string, number>;
    return model({ vocab: rest }, json);
  };

  test.each<[string, JsonObject, RegExp]>([
    ["no model", { ...byteLevelTokenizer(), model: null }, /model is missing/],
    ["a vocabulary that is a list", model({ vocab: [] }), /model\.vocab/],
    ["an id that is no number", vocabulary({ x1: "7" as unknown as number }), /model\.vocab/],
    ["an id far out", vocabulary({ x1: 100_000 }), /leaves a gap/],
    ["an id beyond any", vocabulary({ x1: 2 ** 31 }), /model\.vocab/],
    ["an id twice", vocabulary({ x1: 5 }), /belongs to two tokens|leaves a gap/],
    [
      "a missing byte",
      without("a", { ...byteLevelTokenizer(), added_tokens: addedTokens(["x"], 97) }),
      /two ids|byte 97/,
    ],
    ["a symbol that is no byte", vocabulary({ 日: 268 }), /no byte/],
    [
      "an added token without content",
      { ...byteLevelTokenizer(), added_tokens: [{ id: 264 }] },
      /added token/,
    ],
    [
      "an empty added token",
      { ...byteLevelTokenizer(), added_tokens: addedTokens([""], 264) },
      /added token/,
    ],
    [
      "an added token with two ids",
      { ...byteLevelTokenizer(), added_tokens: addedTokens(["<a>", "<a>"], 264) },
      /two ids/,
    ],
    [
      "an added token with the id of another",
      { ...byteLevelTokenizer(), added_tokens: addedTokens(["<a>"], 257) },
      /belongs to two/,
    ],
    [
      "an added token that merges make",
      { ...byteLevelTokenizer(), added_tokens: addedTokens(["the"], 257) },
      /merge makes "the"/,
    ],
    ["a merge of nothing known", model({ merges: ["q w"] }), /merge makes "qw"/],
    ["a merge of three", model({ merges: ["a b c"] }), /not a merge/],
    ["merges that are no list", model({ merges: {} }), /merges must be a list/],
    ["a missing fallback byte", without("<0x41>", metaspaceTokenizer("never", false)), /gap|<0x41>/],
    ["no unknown token", model({ unk_token: "<none>" }, wordTokenizer()), /unknown token/],
    ["an unknown id out of range", model({ unk_id: 99 }, unigramTokenizer()), /unknown token/],
    [
      "a regular expression that cannot be read",
      {
        ...byteLevelTokenizer(),
        pre_tokenizer: { type: "Split", pattern: { Regex: "(" }, behavior: "Isolated" },
      },
      /tokenizer\.json/,
    ],
  ])("damaged: %s", (_name, json, message) => {
    expect(() => createTokenizer(json)).toThrow(expect.objectContaining({ code: "INVALID_CHECKPOINT" }));
    expect(() => createTokenizer(json)).toThrow(message);
  });

  test.each<[string, JsonObject]>([
    ["WordPiece", model({ type: "WordPiece" })],
    ["a subword prefix", model({ continuing_subword_prefix: "##" })],
    ["Unigram with byte fallback", model({ byte_fallback: true }, unigramTokenizer())],
    ["a lower-casing normalizer", { ...byteLevelTokenizer(), normalizer: { type: "Lowercase" } }],
    [
      "a replacement with a reference",
      { ...byteLevelTokenizer(), normalizer: { type: "Replace", pattern: { String: "a" }, content: "$&" } },
    ],
    ["another pre-tokenizer", { ...byteLevelTokenizer(), pre_tokenizer: { type: "BertPreTokenizer" } }],
    [
      "a split that merges",
      {
        ...byteLevelTokenizer(),
        pre_tokenizer: { type: "Split", pattern: { String: " " }, behavior: "MergedWithNext" },
      },
    ],
    [
      "a prefix space",
      { ...byteLevelTokenizer(), pre_tokenizer: { type: "ByteLevel", add_prefix_space: true } },
    ],
    ["another decoder", { ...byteLevelTokenizer(), decoder: { type: "WordPiece" } }],
    ["no decoder", { ...byteLevelTokenizer(), decoder: null }],
    ["words cut at punctuation", { ...wordTokenizer(), pre_tokenizer: { type: "Whitespace" } }],
    [
      "an added token with lstrip",
      { ...byteLevelTokenizer(), added_tokens: [{ id: 264, content: "<mask>", lstrip: true }] },
    ],
  ])("unsupported, by name: %s", (_name, json) => {
    expect(() => createTokenizer(json)).toThrow(expect.objectContaining({ code: "UNSUPPORTED_MODEL" }));
  });

  test.each<[string, JsonObject]>([
    ["an end token that is none", { eos_token: "<nowhere>" }],
    ["an end token that is a number", { eos_token: 7 }],
    ["a template that is a number", { chat_template: 7 }],
    ["templates without a default", { chat_template: [{ name: "rag", template: "" }] }],
    ["added tokens that are a list", { added_tokens_decoder: [] }],
  ])("damaged config: %s", (_name, config) => {
    expect(() => createTokenizer(byteLevelTokenizer(), config)).toThrow(
      expect.objectContaining({ code: "INVALID_CHECKPOINT" }),
    );
  });
});
