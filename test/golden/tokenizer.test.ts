import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import { ChatTemplate } from "../../lib/policy/chat-template.js";
import { Policy } from "../../lib/policy/policy.js";
import { loadTokenizer, type Tokenizer } from "../../lib/policy/tokenizer.js";
import { describeShared, sharedPath } from "../support/shared.js";
import { smallConfigs } from "../support/small-policy.js";
import { TurnMeter } from "../support/turn-meter.js";

const readRows = (...parts: string[]) =>
  readFileSync(sharedPath(...parts), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

const bytesOf = (tokenizer: Tokenizer, ids: readonly number[]) => {
  const { bytes, offsets } = tokenizer.tokenBytes();
  return Buffer.concat(ids.map((id) => bytes.subarray(offsets[id], offsets[id + 1])));
};

const FIRST_ADDED = 151_643;

describeShared("Qwen2.5's tokenizer", () => {
  const rows: { kind: string; text: string; ids: number[] }[] = readRows(
    "data",
    "golden",
    "qwen2.5_encodings.jsonl",
  );
  let qwen: Tokenizer;
  beforeAll(async () => {
    qwen = await loadTokenizer(sharedPath("data", "tokenizer", "qwen2.5"));
  });

  test("has its published sizes and tokens", () => {
    expect(qwen).toMatchObject({ size: 151_665, eosTokenIds: [151_645], addsBos: false });
    expect(qwen.addedTokens).toHaveLength(22);
    expect(qwen.bosTokenId).toBeUndefined();
    expect(qwen.encodeText("Hello, world!")).toEqual([9707, 11, 1879, 0]);
  });

  test("all published encodings, as trusted text", () => {
    expect(rows).toHaveLength(429);
    for (const { text, ids } of rows) expect(qwen.encodePrompt([{ text, trusted: true }])).toEqual(ids);
  });

  test("the same as untrusted text, unless it names control tokens: then without them", () => {
    let guarded = 0;
    for (const { text, ids } of rows) {
      const plain = qwen.encodeText(text);
      expect(plain.every((id) => id < FIRST_ADDED)).toBe(true);
      if (ids.every((id) => id < FIRST_ADDED)) expect(plain).toEqual(ids);
      else guarded++;
    }
    expect(guarded).toBeGreaterThan(50);
  });

  test("bytes of the tokens and decoded text are the text, in its normal form", () => {
    for (const { text } of rows) {
      const ids = qwen.encodeText(text);
      // The tokenizer's files ask for NFC.
      expect(bytesOf(qwen, ids).equals(Buffer.from(text.normalize("NFC")))).toBe(true);
      expect(qwen.decode(ids)).toBe(text.normalize("NFC"));
    }
  });

  test("a text in trusted and untrusted pieces has the ids that it has as a whole", () => {
    for (const [i, { text, ids }] of rows.entries()) {
      if (ids.some((id) => id >= FIRST_ADDED)) continue;
      const random = new Random("cuts", i);
      const characters = Array.from(text);
      const segments = [];
      for (let at = 0; at < characters.length; ) {
        const length = 1 + random.integer(8);
        segments.push({ text: characters.slice(at, at + length).join(""), trusted: random.integer(2) === 0 });
        at += length;
      }
      expect(qwen.encodePrompt(segments)).toEqual(ids);
    }
  });

  test("no untrusted text yields a control token", () => {
    const pieces = [
      ...qwen.addedTokens,
      ...qwen.addedTokens.map((token) => token.slice(0, -1)),
      ...qwen.addedTokens.map((token) => token.slice(1)),
      "<|",
      "|>",
      "<",
      ">",
      "|",
      "im_end",
      "im_start",
      "endoftext",
      "tool_call",
      // Look-alikes: full-width, Cyrillic, mathematical, zero-width joined, combining.
      "＜|im_end|＞",
      "<|іm_end|>",
      "<|𝑖𝑚_end|>",
      "<|im_\u200dend|>",
      "<|im_end|\u0338>",
      "<\u0338|im_end|>",
      " ",
      "\n",
      "é",
      "\u0301",
      "日本",
      "😀",
      "\ud83d",
      "\ude00",
      "\0",
      "\ufeff",
      "system\n",
      "</search>",
    ];
    const random = new Random("injection", 1);
    for (let i = 0; i < 3000; i++) {
      const text = Array.from({ length: 1 + random.integer(10) }, () => random.pick(pieces)).join("");
      for (const id of qwen.encodeText(text))
        if (id >= FIRST_ADDED) throw new Error(`${id} from ${JSON.stringify(text)}`);
      const split = random.integer(text.length + 1);
      const segments = [
        { text: "<|im_start|>user\n", trusted: true },
        { text: text.slice(0, split), trusted: false },
        { text: "x", trusted: true },
        { text: text.slice(split), trusted: false },
        { text: "<|im_end|>", trusted: true },
      ];
      const control = qwen.encodePrompt(segments).filter((id) => id >= FIRST_ADDED);
      if (control.join() !== "151644,151645") throw new Error(`${control} from ${JSON.stringify(segments)}`);
    }
  });

  test("long text without a space is no trap", () => {
    const started = performance.now();
    expect(qwen.encodeText("ab".repeat(25_000)).length).toBeGreaterThan(1000);
    expect(qwen.encodeText(" ".repeat(50_000)).length).toBeGreaterThan(100);
    expect(qwen.encodeText("<|im_end|>".repeat(5000)).length).toBeGreaterThan(5000);
    expect(performance.now() - started).toBeLessThan(30_000);
  });

  describe("its chat template", () => {
    const cases = readRows("data", "golden", "chat_template_qwen2.5.jsonl");

    test.each([
      ["trusted", true],
      ["untrusted", false],
    ])("all published conversations, with %s contents", (_name, trusted) => {
      expect(cases).toHaveLength(7);
      const template = new ChatTemplate(qwen);
      for (const { messages, tools, add_generation_prompt: addGenerationPrompt, text, ids } of cases) {
        const segments = template.render(
          messages.map((message: { role: string; content: string; tool_calls?: unknown[] }) => ({
            role: message.role,
            content: [{ text: message.content, trusted }],
            ...(message.tool_calls && { toolCalls: message.tool_calls }),
          })),
          { addGenerationPrompt, ...(tools && { tools }) },
        );
        expect(segments.map((segment) => segment.text).join("")).toBe(text);
        expect(qwen.encodePrompt(segments)).toEqual(ids);
      }
    });

    test("puts its own system message first, unless there is one", () => {
      const template = new ChatTemplate(qwen);
      const user = { role: "user", content: "hi" };
      const textOf = (system?: string) =>
        template
          .render(system === undefined ? [user] : [{ role: "system", content: system }, user])
          .map(({ text }) => text)
          .join("");
      expect(textOf()).toMatch(/^<\|im_start\|>system\nYou are Qwen, created by Alibaba Cloud\./);
      expect(textOf("")).toMatch(/^<\|im_start\|>system\n<\|im_end\|>\n<\|im_start\|>user\nhi/);
      expect(textOf("Be brief.")).toMatch(/^<\|im_start\|>system\nBe brief\.<\|im_end\|>/);
    });
  });
});

describeShared("building Qwen2.5's tokenizer", () => {
  const folder = sharedPath("data", "tokenizer", "qwen2.5");

  async function load() {
    const turns = new TurnMeter();
    await loadTokenizer(folder);
    return turns.stop();
  }

  async function initialize() {
    const json = JSON.parse(readFileSync(join(folder, "tokenizer.json"), "utf8"));
    const turns = new TurnMeter();
    const policy = await Policy.initialize({
      config: { ...smallConfigs.qwen2, vocab_size: 151_936 },
      tokenizer: { json },
    });
    policy.dispose();
    return turns.stop();
  }

  test.each([
    ["from a folder", load],
    ["for a new model", initialize],
  ])("%s leaves the event loop its turn between its parts", async (_, build) => {
    const cpu = await build();
    const total = cpu.reduce((sum, milliseconds) => sum + milliseconds, 0);
    expect(cpu.filter((milliseconds) => milliseconds > 1).length).toBeGreaterThan(8);
    expect((cpu.at(-1) ?? total) / total).toBeLessThan(0.4);
  });
});

describeShared("the tokenizer of stories260k", () => {
  const vectors: { text: string; ids: number[] }[] = JSON.parse(
    readFileSync(sharedPath("data", "model", "stories260k", "tokenizer_vectors.json"), "utf8"),
  );
  let stories: Tokenizer;
  beforeAll(async () => {
    stories = await loadTokenizer(sharedPath("data", "model", "stories260k"));
  });

  test("all published vectors, with BOS asked for, and back", () => {
    expect(stories).toMatchObject({ size: 512, bosTokenId: 1, eosTokenIds: [2], addsBos: true });
    expect(vectors).toHaveLength(30);
    for (const { text, ids } of vectors) {
      expect(stories.encodePrompt([{ text, trusted: false }], { bos: true })).toEqual(ids);
      expect(stories.encodeText(text)).toEqual(ids.slice(1));
      expect(stories.decode(ids, { fromStart: true })).toBe(text);
      expect(bytesOf(stories, ids).toString("utf8")).toBe(` ${text}`);
    }
  });

  test("no untrusted text yields a control token", () => {
    const pieces = [
      "<s>",
      "</s>",
      "<unk>",
      "<",
      "s",
      ">",
      "/",
      "<0x01>",
      "\u2581",
      " ",
      "日",
      "\ud800",
      "\0",
    ];
    const random = new Random("injection", 2);
    for (let i = 0; i < 2000; i++) {
      const text = Array.from({ length: 1 + random.integer(8) }, () => random.pick(pieces)).join("");
      for (const id of stories.encodeText(text))
        if (id < 3) throw new Error(`${id} from ${JSON.stringify(text)}`);
    }
  });
});
