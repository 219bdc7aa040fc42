import OpenAI from "openai";
import { expect, test, vi } from "vitest";
import { TINY_QUESTIONS } from "../../examples/own-loop/tiny-world.js";
import { commandLine } from "../support/command-line.js";

vi.setConfig({ testTimeout: 60_000 });
const { run } = commandLine();

test("serve: the model and its agent, until Ctrl-C", async () => {
  const [{ question }] = TINY_QUESTIONS as [(typeof TINY_QUESTIONS)[number]];
  const asked: Promise<unknown>[] = [];
  const { code, events, stderr } = await run(["serve", "train.yaml", "--port", "0", "--json"], {
    onEvent: ({ event, url, models }, child) => {
      if (event !== "serving") return;
      const client = new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 });
      const [model, agent] = models;
      asked.push(
        Promise.all([
          client.completions.create({ model, prompt: question, max_tokens: 3, temperature: 0 }),
          client.chat.completions.create({
            model: agent,
            messages: [{ role: "user", content: question }],
            temperature: 0,
          }),
        ]).finally(() => child.kill("SIGINT")),
      );
    },
  });
  expect(code, stderr).toBe(130);
  expect(events[0]).toMatchObject({ event: "serving", models: ["train", "train-search"] });
  const [[completion, chat]] = (await Promise.all(asked)) as [[OpenAI.Completion, OpenAI.ChatCompletion]];
  expect(completion.usage?.completion_tokens).toBeGreaterThan(0);
  expect(chat.choices[0]?.message).toHaveProperty("search.status");
});
