import { z } from "zod";
import { count, path } from "./fields.js";
import { Judge } from "./judge.js";
import { Model } from "./model.js";
import { Protocol } from "./protocol.js";
import { Retriever } from "./retriever.js";
import { Reward } from "./reward.js";
import { Sinks } from "./sinks.js";
import { Training } from "./training.js";

const questionFields = {
  questions: path.describe("JSON Lines of questions with gold answers, plain or gzip."),
  limit: count.optional().describe("Read only so many from the start. Default: all."),
};

const Evaluation = z
  .strictObject({
    ...questionFields,
    every: count
      .default(50)
      .describe("Evaluate before the first step, after every so many steps, and after the last."),
    modes: z
      .array(z.enum(["greedy", "sampled"]))
      .min(1)
      .default(["greedy"])
      .describe("Greedy decoding, sampling as in training, or both."),
    retriever: Retriever.optional().describe("Default: the training retriever."),
    corpus: z
      .string()
      .min(1)
      .optional()
      .describe("Names corpus and engine in the reports. Default: `unnamed`."),
  })
  .meta({ id: "evaluation" });

const Run = z
  .strictObject({
    folder: path.default("runs/train").describe("Settings, metrics, trajectories, checkpoints."),
    checkpointEvery: z
      .int()
      .min(0)
      .default(1)
      .describe(
        "Checkpoint after every so many steps, after the last, and after the best evaluation; 0: never.",
      ),
    keepBest: z
      .union([z.literal(false), z.enum(["exactMatch", "f1", "containment"])])
      .default("exactMatch")
      .describe(
        "One more checkpoint is kept: that with the highest such score in an evaluation; `false`: none.",
      ),
    keepCheckpoints: count.default(2).describe("Newest checkpoints that are kept."),
  })
  .meta({ id: "run" });

const Replay = z
  .strictObject({
    folder: path.describe("Where the records are; runs may share it."),
    mode: z
      .enum(["off", "record", "replay", "replay-else-record"])
      .default("replay-else-record")
      .describe("`replay` answers from records alone: no network, no bill."),
    corpus: z
      .string()
      .min(1)
      .optional()
      .describe("Names corpus and engine, for records of searches. Default: searches are not recorded."),
  })
  .meta({ id: "replay" });

/**
 * The configuration of a training run: types, defaults, checks, help, documentation and the JSON Schema for editors all
 * come from here.
 */
export const Configuration = z
  .strictObject({
    base: z
      .string()
      .min(1)
      .optional()
      .describe("Folder that relative paths count from. Default: that of this file."),
    model: Model.describe("What is trained."),
    data: z.strictObject(questionFields).meta({ id: "data" }).describe("Training questions."),
    retriever: Retriever.describe("What searches."),
    judge: Judge.default({ kind: "none" }).describe("What reads failed trajectories and writes the hints."),
    protocol: Protocol.prefault({}).describe("How policy and search engine talk."),
    reward: Reward.default({ kind: "exact-match" }).describe("What scores trajectories."),
    training: Training.describe("The training itself."),
    evaluation: Evaluation.optional().describe(
      "Evaluation on questions that are not trained on. Default: none.",
    ),
    run: Run.prefault({}).describe("Where the run is written."),
    sinks: Sinks.default([]).describe("Where metrics go beside the run folder."),
    replay: Replay.optional().describe("Records of what judge and retriever said. Default: none."),
  })
  .refine(({ judge, training }) => judge.kind !== "none" || !training.distillation, {
    path: ["training", "distillation"],
    message: "needs a judge: without one there are no hints, so it could have no effect",
  })
  .refine(
    ({ training }) =>
      training.policyTerm.aggregation !== "fixed-length" || training.policyTerm.fixedLength !== undefined,
    {
      path: ["training", "policyTerm", "fixedLength"],
      message: "is needed by aggregation fixed-length",
    },
  );

/** A configuration with every default filled in. */
export type Configuration = z.output<typeof Configuration>;
