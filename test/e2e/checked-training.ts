import { expect } from "vitest";
import { searchR1 } from "../../lib/agent/protocol.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import type { Retriever } from "../../lib/retrieval/retriever.js";
import { exactMatch } from "../../lib/reward/match.js";
import type { Reward } from "../../lib/reward/reward.js";
import type { HindSearchOptions } from "../../lib/training/options.js";
import type { TrainingStepResult } from "../../lib/training/record.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";
import { expectHealthy } from "./health.js";
import { expectTruthful } from "./truthful.js";

/** Options of {@link checkedTraining}. */
export interface CheckedTrainingOptions extends HindSearchOptions {
  /** What the retriever may return. */
  corpus: ReadonlyMap<string, Passage>;
  /** End the loop early, behind this step. */
  lastStep?: number;
}

/** Trains, and checks what every step says about itself. */
export async function checkedTraining(options: CheckedTrainingOptions): Promise<TrainingStepResult[]> {
  const { policy, protocol = searchR1(), corpus, lastStep, ...others } = options;
  const found = new Map<string, Passage[]>();
  const retriever = watched(options.retriever, corpus, found);
  const { tokenizer, eosTokenIds } = policy;
  const truth = { protocol, tokenizer, eosTokenIds, found: (query: string) => found.get(query) };
  const results: TrainingStepResult[] = [];
  for await (const result of new HindSearchTrainer({ ...others, policy, protocol, retriever })) {
    for (const { trajectory } of result.groups.flat()) expectTruthful(trajectory, truth);
    expectHealthy(result);
    results.push(result);
    if (result.step === lastStep) break;
  }
  return results;
}

/** Keeps what a retriever returns, and expects it to be of the corpus, letter for letter. */
function watched(
  retriever: Retriever,
  corpus: ReadonlyMap<string, Passage>,
  found: Map<string, Passage[]>,
): Retriever {
  return {
    async search(queries, topK, options) {
      const lists = await retriever.search(queries, topK, options);
      for (const [i, list] of lists.entries()) {
        for (const { score, ...passage } of list) {
          expect(score).toBeGreaterThan(0);
          expect(passage).toEqual(corpus.get(passage.id));
        }
        found.set(queries[i] as string, structuredClone(list));
      }
      return lists;
    },
  };
}

/** Something to learn from for a model that is never right: the more Latin letters it writes, the better. */
export const LETTERS: Reward = {
  name: "exact match and letters",
  score({ answer, pieces }, goldAnswers) {
    const written = pieces().filter(({ source }) => source === "policy");
    const text = written.map((piece) => piece.text).join("");
    const letters = (text.match(/[a-z]/gi)?.length ?? 0) / Math.max(1, text.length);
    const right = exactMatch(answer, goldAnswers);
    return { reward: Math.max(right, 0.4 * letters), components: { exactMatch: right, letters } };
  },
};
