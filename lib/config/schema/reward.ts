import { z } from "zod";
import { kind } from "./fields.js";

const share = z.number().min(0).max(1);

/** What scores trajectories. */
export const Reward = z
  .discriminatedUnion("kind", [
    z.strictObject({ kind: kind("exact-match", "1 for an answer that equals a gold answer, else 0.") }),
    z.strictObject({ kind: kind("f1", "Share of words that answer and gold answer have in common.") }),
    z.strictObject({
      kind: kind("format", "Exact match with credit for the format, as in Search-R1's version 0.3."),
      structure: share
        .default(0.2)
        .describe("What a breach of the format costs a right answer, and what keeping it earns without one."),
      finalFormat: share.default(0.1).describe("For a wrong answer in a response that breaks the format."),
      retrieval: share.default(0).describe("On top of `structure`, if an observation holds a gold answer."),
    }),
  ])
  .meta({ id: "reward" });

/** See {@link Reward}. */
export type RewardConfig = z.output<typeof Reward>;
