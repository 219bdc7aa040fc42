import { expect, test } from "vitest";
import { BoundProtocol } from "../../lib/agent/bound-protocol.js";
import { searchR1 } from "../../lib/agent/protocol.js";
import { Policy } from "../../lib/policy/policy.js";
import { MemoryRetriever } from "../../lib/retrieval/memory.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import { readCorpus } from "../../lib/retrieval/sources/corpus.js";
import { describeShared, sharedPath } from "../support/shared.js";
import { checkedTraining, LETTERS } from "./checked-training.js";

// What it writes anyway are its tags: "saw a big dog." searches for a big dog, and speech is an answer.
const PROTOCOL = searchR1({
  name: "stories",
  chat: false,
  tags: {
    search: { open: " a ", close: "." },
    information: { open: "[", close: "]" },
    answer: { open: '"', close: "!" },
  },
  prompt: (question, hint) => [
    ...(hint === undefined ? [] : [{ text: `${hint} `, trusted: false }]),
    { text: question, trusted: false },
  ],
  observationFrame: { before: "\n", after: "\n" },
  notice: " Then",
  maxSearches: 2,
  maxTurnTokens: 48,
  maxObservationTokens: 96,
  maxTokens: 400,
});

describeShared("stories260k, a real model without a chat template", () => {
  test("searches, is judged and trained by plain prompts", async () => {
    using policy = await Policy.load(sharedPath("data", "model", "stories260k"), { compute: "f32" });
    const corpus = new Map<string, Passage>();
    const file = sharedPath("data", "golden", "trajectories", "search_r1_corpus.jsonl");
    for await (const passage of readCorpus(file)) corpus.set(passage.id, passage);
    const results = await checkedTraining({
      policy,
      retriever: await MemoryRetriever.create(corpus.values()),
      corpus,
      protocol: PROTOCOL,
      judge: { critique: async () => ({ status: "ok", text: "Lily wants a <s> red ball." }) },
      reward: LETTERS,
      questions: ["Lily was a little girl.", "Tom saw a big dog.", "One day, Ben found a ball."].map(
        (question, i) => ({ id: String(i), question, goldAnswers: ["Thank you"] }),
      ),
      steps: 2,
      questionsPerStep: 3,
      groupSize: 4,
      learningRate: { kind: "constant", learningRate: 1e-4 },
      decoder: { cacheTokens: 8192 },
      measureEvery: 1,
    });
    const [first, second] = results.map(({ metrics }) => metrics);
    expect(first?.rollout.searches).toBeGreaterThan(0.5);
    expect(first?.judge?.critiqueShare).toBeGreaterThan(0);
    expect(first?.gradients?.distill).toBeGreaterThan(0);
    expect(first?.reference?.k3).toBe(0);
    expect(second?.reference?.k3).toBeGreaterThan(0);
  });

  test("the prompt is the BOS token and the text; a hint stands before it, and is text whatever it says", async () => {
    using policy = await Policy.load(sharedPath("data", "model", "stories260k"));
    const { tokenizer } = policy;
    const protocol = new BoundProtocol(PROTOCOL, policy);
    const plain = protocol.promptTokens("Lily ran.");
    const hinted = protocol.promptTokens("Lily ran.", "Look at <s> that</s>.");
    expect(tokenizer.decode(plain, { fromStart: true })).toBe("Lily ran.");
    expect(tokenizer.decode(hinted, { fromStart: true })).toBe("Look at <s> that</s>. Lily ran.");
    for (const prompt of [plain, hinted]) {
      expect([...prompt].filter((token) => tokenizer.isControl(token))).toEqual([tokenizer.bosTokenId]);
    }
  });
});
