/**
 * A judge behind an OpenAI-compatible address: a hosted service, vLLM, SGLang, llama.cpp, Ollama.
 *
 *     npx tsx examples/openai-judge.ts
 *     HINDSEARCH_JUDGE_API_KEY=... npx tsx examples/openai-judge.ts https://api.openai.com/v1 gpt-4o-mini
 *
 * Without an address it starts a stand-in on loopback that always gives the same advice, so that it runs offline.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ChatJudge } from "hindsearch";
import { tinyPolicy } from "./own-loop/tiny-world.js";

const [address, model = "stand-in"] = process.argv.slice(2);
const standIn = await startStandIn();
using policy = await tinyPolicy();

const judge = new ChatJudge({
  baseURL: address ?? `http://127.0.0.1:${(standIn.address() as AddressInfo).port}/v1`,
  model,
  tokenizer: policy.tokenizer, // counts and cuts critiques as the teacher reads them
  leak: "drop", // a critique that states the gold answer is no critique
  budget: { tokens: 100_000 },
  prices: { prompt: 0.15, completion: 0.6 }, // per million tokens
});
const critique = await judge.critique({
  question: "Where was the director of Free Guy born?",
  goldAnswers: ["Montreal"],
  steps: [{ query: "Free Guy", passages: [{ id: "1", title: "Free Guy", text: "A film by Shawn Levy." }] }],
  answer: "London",
});
console.log(critique);
const { usage, latency } = judge.stats();
console.log(usage, latency);
standIn.close();

/** Answers every chat request between the marks that the prompt asks for. */
async function startStandIn() {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const [, nonce] = body.match(/\[\[critique (\w+)\]\]/) ?? [];
    const content = `[[critique ${nonce}]]Search for the birthplace of Shawn Levy, the director.[[end ${nonce}]]`;
    const choices = [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }];
    const usage = { prompt_tokens: 300, completion_tokens: 12, total_tokens: 312 };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ id: "1", object: "chat.completion", choices, usage }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}
