import type { Reward } from "../reward/reward.js";
import type { HindSearchOptions } from "./options.js";
import { needsTeacher, type TrainerSettings } from "./settings.js";

/** A run in words: which weights compute what, and how large a step is. */
export function runPlan(options: HindSearchOptions, settings: TrainerSettings, reward: Reward): string {
  const { policy, questions, evaluation } = options;
  const { steps, questionsPerStep, groupSize, miniBatches, kl, distillation, protocol } = settings;
  const initial = "the policy as it is now, frozen";
  const lines = [
    ["policy", settings.participants.policy],
    ["end tokens", policy.eosTokenIds.join(", ") || "none"],
    ["sampled at", `temperature ${settings.sampling.temperature}, full distribution`],
    ["reference", kl ? `${initial}; ${kl.estimator} with weight ${kl.weight}` : "not in the loss"],
    ["teacher", distillation ? `${initial}, with the critique as a hint` : "none"],
    ["judge", distillation ? judgePlan(settings) : "none: plain GRPO"],
    ["frozen copy", needsTeacher(settings) ? "one, shared by reference and teacher" : "none"],
    ["reward", `${reward.name}; below ${settings.successThreshold} a trajectory failed`],
    [
      "step",
      `${questionsPerStep} questions x ${groupSize} trajectories, ${miniBatches} optimizer steps; ${steps} steps`,
    ],
    ["questions", `${questions.length} to train, ${evaluation?.questions.length ?? 0} to evaluate`],
    [
      "protocol",
      `${protocol.protocol}: ${protocol.maxSearches} searches of ${protocol.passagesPerSearch} passages, ` +
        `context ${protocol.maxTokens}`,
    ],
    ["run folder", runFolderPlan(options, settings)],
  ];
  return lines.map(([name, text]) => `${`${name}:`.padEnd(13)}${text}`).join("\n");
}

/** Where the run is kept, what that takes, and what a kill costs. */
function runFolderPlan(
  { policy, runFolder }: HindSearchOptions,
  { checkpointEvery, keepCheckpoints, keepBest }: TrainerSettings,
): string {
  if (runFolder === undefined) return "none: nothing is kept";
  if (checkpointEvery === 0) return `${runFolder}; no checkpoints: what is killed is lost`;
  const count = policy.parameters.reduce(
    (sum, { shape }) => sum + shape.reduce((size, axis) => size * axis, 1),
    0,
  );
  // Master weights and two moments, and the model in its own type.
  const gigabytes = (count * (12 + (policy.compute === "bf16" ? 2 : 4))) / 1e9;
  const kept = keepCheckpoints + (keepBest === null ? 0 : 1);
  return (
    `${runFolder}; a checkpoint of ${gigabytes.toPrecision(2)} GB after every ${checkpointEvery === 1 ? "step" : `${checkpointEvery} steps`}, ` +
    `${kept} kept`
  );
}

function judgePlan({ distillation }: TrainerSettings): string {
  if (distillation === null) return "none";
  const { term, judgeSeesGold, hintControl, trajectoryScope, tokenScope } = distillation;
  return (
    `sees ${judgeSeesGold ? "the gold answers" : "no gold answer"}; hint ${hintControl}; weight ${term.weight} on ` +
    `${tokenScope} tokens of trajectories: ${trajectoryScope}`
  );
}
