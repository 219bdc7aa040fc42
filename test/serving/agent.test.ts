import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import OpenAI from "openai";
import { afterEach, describe, expect, test } from "vitest";
import type { Policy } from "../../lib/policy/policy.js";
import { MemoryRetriever } from "../../lib/retrieval/memory.js";
import type { Retriever } from "../../lib/retrieval/retriever.js";
import { type PolicyServer, servePolicy } from "../../lib/serving/server.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { ScriptedDecoder } from "../support/scripted-decoder.js";

const TEMPLATE =
  "{% for message in messages %}{{ message.role }}: {{ message.content }}<|end|>{% endfor %}assistant: ";
const tokenizer = byteTokenizer(["<|end|>"], TEMPLATE);

/** A policy that searches for what it is asked and answers with the first passage's title. */
function scriptedPolicy(): Policy {
  const decoder = new ScriptedDecoder(tokenizer, ({ inserted, turn }) =>
    turn === 0
      ? "<think>I must look.</think><search>capital of France</search>"
      : `<answer>${/Title: "([^"]*)"/.exec(inserted.join(""))?.[1]}</answer>`,
  );
  const parts = { tokenizer, eosTokenIds: [256], config: { maxPositions: 8192 } };
  return {
    ...parts,
    createDecoder: async () => Object.assign(decoder, { dispose: () => {} }),
  } as unknown as Policy;
}

const corpus = [
  { id: "p1", title: "Paris", text: "Paris is the capital of France." },
  { id: "p2", title: "Berlin", text: "Berlin is the capital of Germany." },
];

let server: PolicyServer | undefined;
afterEach(() => server?.close());

async function start(retriever: Retriever, onError?: (error: unknown) => void): Promise<OpenAI> {
  server = await servePolicy(scriptedPolicy(), { port: 0, name: "tuned", agent: { retriever }, onError });
  return new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
}

const question = {
  model: "tuned-search",
  messages: [{ role: "user" as const, content: "What is the capital of France?" }],
};

interface AgentMessage {
  content: string;
  reasoning_content: string;
  search: { status: string; searches: { query: string; passages: { id: string; title: string }[] }[] };
}

describe("an agent", () => {
  test("searches, answers, and says what it looked up", async () => {
    const client = await start(await MemoryRetriever.create(corpus));
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(["tuned", "tuned-search"]);
    const { choices, usage } = await client.chat.completions.create({ ...question, stop: [] });
    const message = choices[0]?.message as unknown as AgentMessage;
    expect(message.content).toBe("Paris");
    expect(message.reasoning_content).toContain("I must look.");
    expect(message.search).toEqual({
      status: "answered",
      searches: [
        {
          query: "capital of France",
          passages: [
            { id: "p1", title: "Paris" },
            { id: "p2", title: "Berlin" },
          ],
        },
      ],
    });
    // Passages are no tokens that it wrote.
    const written = "<think>I must look.</think><search>capital of France</search><answer>Paris</answer>";
    expect(usage?.completion_tokens).toBe(written.length);
  });

  test("streams its turns before its answer", async () => {
    const client = await start(await MemoryRetriever.create(corpus));
    const stream = await client.chat.completions.create({ ...question, stream: true });
    const kinds: string[] = [];
    let content = "";
    for await (const { choices } of stream) {
      const delta = choices[0]?.delta as Record<string, unknown>;
      content += (delta.content as string | undefined) ?? "";
      kinds.push(...Object.keys(delta).filter((key) => delta[key] !== ""));
    }
    expect(content).toBe("Paris");
    expect(kinds).toEqual([
      "role",
      "reasoning_content",
      "reasoning_content",
      "reasoning_content",
      "content",
      "search",
    ]);
  });

  test("works with the AI SDK, whole and streamed: its turns are the reasoning", async () => {
    await start(await MemoryRetriever.create(corpus));
    const provider = createOpenAICompatible({ name: "hindsearch", baseURL: `${server?.url}/v1` });
    const request = {
      model: provider("tuned-search"),
      prompt: "What is the capital of France?",
      maxRetries: 0,
    };
    const { text, reasoningText, usage, finishReason } = await generateText(request);
    expect(text).toBe("Paris");
    expect(reasoningText).toContain("I must look.");
    expect(finishReason).toBe("stop");
    expect(usage.outputTokens).toBeGreaterThan(0);
    const parts: string[] = [];
    let streamed = "";
    for await (const part of streamText(request).fullStream) {
      parts.push(part.type);
      if (part.type === "text-delta") streamed += part.text;
    }
    expect(streamed).toBe("Paris");
    expect(parts.indexOf("reasoning-delta")).toBeLessThan(parts.indexOf("text-delta"));
    expect(parts).not.toContain("error");
  });

  test("says that the search failed, to the client in short and to the operator in full", async () => {
    const errors: unknown[] = [];
    const down: Retriever = { search: () => Promise.reject(new Error("disk on fire")) };
    const client = await start(down, (error) => errors.push(error));
    await expect(client.chat.completions.create(question)).rejects.toMatchObject({
      status: 502,
      message: expect.stringMatching(/the search failed$/),
    });
    expect(String(errors)).toContain("disk on fire");
  });

  test.each([
    ["a limit", { max_tokens: 5 }, /max_tokens/],
    ["a stop text", { stop: "x" }, /stop/],
    ["two answers", { n: 2 }, /one answer/],
    [
      "a conversation that the user did not end",
      { messages: [{ role: "assistant" as const, content: "Hi" }] },
      /messages/,
    ],
  ])("refuses %s", async (_, more, message) => {
    const client = await start(await MemoryRetriever.create(corpus));
    await expect(client.chat.completions.create({ ...question, ...more })).rejects.toThrow(message);
  });
});
