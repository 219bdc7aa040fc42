import { once } from "node:events";
import { ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { Policy } from "../../lib/policy/policy.js";
import { type PolicyServer, servePolicy } from "../../lib/serving/server.js";
import { byteTokenizerJson } from "../support/byte-tokenizer.js";
import { smallConfigs } from "../support/small-policy.js";

// It stands in every piece of a stream, so that a small model fills the buffers of the system.
const NAME = "m".repeat(10_000);
const CHOICES = 16;
const [headers, PIECES] = ["content-type: application/json\r\nhost: 127.0.0.1\r\nconnection: close", 60];

let policy: Policy;
beforeAll(async () => {
  policy = await Policy.initialize({
    config: { ...smallConfigs.qwen2, vocab_size: 257, eos_token_id: 256 },
    tokenizer: { json: byteTokenizerJson(), config: { eos_token: "<|end|>" }, chatTemplate: "" },
    seed: 7,
    standardDeviation: 0.2,
    compute: "f32",
  });
});
afterAll(() => policy.dispose());

/** Asks for long texts, and reads nothing. */
async function ask({ url }: PolicyServer, stream: boolean): Promise<Socket> {
  const body = JSON.stringify({
    ...{ model: NAME, prompt: "a", seed: 1, temperature: 100, n: CHOICES, max_tokens: PIECES * 8, stream },
    logprobs: 1,
  });
  const socket = connect(Number(new URL(url).port), "127.0.0.1").pause();
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.write(
    `POST /v1/completions HTTP/1.1\r\n${headers}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  return socket;
}

/** Reads to the end. */
async function readAll(socket: Socket): Promise<string> {
  let text = "";
  for await (const chunk of socket) text += chunk;
  return text;
}

const short = (url: string) =>
  fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: NAME, prompt: "a", max_tokens: 4 }),
  });

/** Looks at what answers leave unread: the most, and how much is written in all. */
function watchAnswers() {
  const write = vi.spyOn(ServerResponse.prototype, "write");
  const most = { unread: 0 };
  const timer = setInterval(() => {
    for (const response of new Set(write.mock.contexts))
      most.unread = Math.max(most.unread, (response as ServerResponse).writableLength);
  }, 2);
  return {
    most,
    get pieces() {
      return write.mock.calls.length;
    },
    [Symbol.dispose]() {
      clearInterval(timer);
      write.mockRestore();
    },
  };
}

describe("a client that reads slowly", () => {
  test("holds its own texts up and nobody else's, and what waits for it is bounded", async () => {
    await using server = await servePolicy(policy, { port: 0, name: NAME });
    using watched = watchAnswers();
    const socket = await ask(server, true);
    // Until nothing more is written.
    let pieces = -1;
    while (pieces <= 0 || pieces !== watched.pieces) {
      pieces = watched.pieces;
      await new Promise((later) => setTimeout(later, 300));
    }
    expect(pieces).toBeLessThan(CHOICES * PIECES);
    expect((await short(server.url)).status).toBe(200);
    const slow = await readAll(socket);
    // One piece of each choice at most, behind what the system takes at once.
    expect(watched.most.unread).toBeLessThan((CHOICES + 2) * 12_000);
    expect(slow).toContain("data: [DONE]");
    const fast = await readAll(await ask(server, true));
    const texts = (answer: string) =>
      [...answer.matchAll(/"text":"(.*?)","logprobs"/g)].map(([, text]) => text);
    expect(texts(slow).sort()).toEqual(texts(fast).sort());
  });

  test("and takes nothing at all is hung up on, and frees its place", async () => {
    await using server = await servePolicy(policy, {
      ...{ port: 0, name: NAME, stallMs: 500, maxRequests: 1, graceMs: 60_000 },
    });
    const socket = await ask(server, true);
    await expect.poll(async () => (await short(server.url)).status).toBe(503);
    await expect.poll(async () => (await short(server.url)).status, { timeout: 10_000 }).toBe(200);
    expect(await readAll(socket).catch(() => "cut off")).not.toContain("[DONE]");
    // Nothing is left that closing would wait for.
    const start = performance.now();
    await server.close();
    expect(performance.now() - start).toBeLessThan(5_000);
  });

  test("but goes on reading is not, however long it takes", async () => {
    await using server = await servePolicy(policy, { port: 0, name: NAME, stallMs: 2_000 });
    const socket = await ask(server, true);
    const start = performance.now();
    let text = "";
    for await (const chunk of socket) {
      text += chunk;
      if (performance.now() - start < 4_500) await new Promise((later) => setTimeout(later, 100));
    }
    expect(performance.now() - start).toBeGreaterThan(4_500);
    expect(text).toContain("[DONE]");
  });
});
