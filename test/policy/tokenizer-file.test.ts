import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { JsonObject } from "../../lib/policy/json-file.js";
import { createTokenizer, loadTokenizer } from "../../lib/policy/tokenizer.js";
import {
  addedTokens,
  byteLevelTokenizer,
  metaspaceTokenizer,
  unigramTokenizer,
  wordTokenizer,
} from "../support/small-tokenizers.js";

describe("tokenizer files", () => {
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
    expect(tokenizer.encodePrompt([{ text: "<think>", trusted: true }])).toEqual([268]);
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
