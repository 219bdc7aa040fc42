/** Rollouts whose searches take time, against the same rollouts with searches that take none. */
import {
  BoundProtocol,
  type Passage,
  Policy,
  type Retriever,
  rollout,
  searchR1,
  type Trajectory,
} from "hindsearch";
import { wordTokenizerJson } from "../../examples/own-loop/tiny-world.js";
import { configOf, MODELS } from "../models.js";

/** What to roll out. */
export interface RetrieverTask {
  trajectories: number;
  /** Milliseconds of a search, one rollout each. */
  delays: readonly number[];
}

/** Of one rollout. */
export interface RetrieverResult {
  delay: number;
  milliseconds: number;
  searches: number;
  generatedTokens: number;
}

/**
 * The layers of the 0.5B model with random weights and a vocabulary of 16 words, which it draws evenly: a turn is 16
 * tokens long on average and nearly always a search, as every word but the closing one holds the opening tag.
 */
const WORDS = [...Array.from({ length: 15 }, (_, i) => `a${i}`), "b"];
const CONTROL = ["<s>", "</s>", "<unk>"];

/** Runs the rollouts, which must be equal token by token. */
export async function work({ trajectories, delays }: RetrieverTask): Promise<RetrieverResult[]> {
  const shape = { ...MODELS["0.5B"], vocabulary: CONTROL.length + WORDS.length };
  using policy = await Policy.initialize({
    config: configOf(shape),
    tokenizer: { json: wordTokenizerJson(CONTROL, WORDS) },
  });
  using decoder = await policy.createDecoder({ maxBatch: trajectories, cacheTokens: trajectories * 512 });
  const protocol = new BoundProtocol(
    searchR1({
      name: "bench",
      tags: {
        search: { open: "a", close: "b" },
        information: { open: "a1 a2", close: "a2 a1" },
        answer: { open: "<answer>", close: "</answer>" },
      },
      chat: false,
      prompt: (question) => [{ text: question, trusted: false }],
      passagesPerSearch: 1,
      maxTurnTokens: 64,
      maxObservationTokens: 40,
      maxTokens: 512,
      formatPassages: (passages) => passages.map(({ text }) => text).join(" "),
      observationFrame: { before: " ", after: " " },
      notice: "",
    }),
    policy,
  );
  const questions = Array.from({ length: trajectories }, (_, i) => ({
    id: String(i),
    question: Array.from({ length: 24 }, (_, word) => WORDS[(i + word * 7) % 15]).join(" "),
    goldAnswers: ["a0"],
  }));
  const results: RetrieverResult[] = [];
  let expected: string | undefined;
  for (const delay of [0, ...delays]) {
    const before = decoder.stats().generatedTokens;
    const { groups, searches, milliseconds } = await rollout({
      decoder,
      retriever: new SlowRetriever(delay),
      protocol,
      questions,
      // The first one warms up, with other text.
      seed: expected === undefined ? 1 : 2,
    });
    const tokens = tokensOf(groups.flat());
    const generatedTokens = decoder.stats().generatedTokens - before;
    if (expected === undefined) expected = "";
    else {
      if (expected !== "" && expected !== tokens) throw new Error("Two rollouts of one seed are not equal.");
      expected = tokens;
      results.push({ delay, milliseconds, searches: searches.searches, generatedTokens });
    }
  }
  return results;
}

class SlowRetriever implements Retriever {
  constructor(private readonly milliseconds: number) {}

  async search(queries: readonly string[]): Promise<Passage[][]> {
    if (this.milliseconds > 0) await new Promise((resolve) => setTimeout(resolve, this.milliseconds));
    return queries.map(() => [{ id: "1", title: "", text: WORDS.slice(0, 12).join(" ") }]);
  }
}

const tokensOf = (trajectories: readonly Trajectory[]) =>
  trajectories.map(({ tokens }) => tokens.join(" ")).join("\n");
