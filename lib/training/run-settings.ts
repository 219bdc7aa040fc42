import { HindsearchError } from "../errors.js";
import { redactSecrets } from "../runs/redact.js";
import type { RunDirectory } from "../runs/run.js";
import type { TrainerSettings } from "./settings.js";

/**
 * Settings that change nothing of what a step computes, or no more than rounding: a run may go on with others. Paths of
 * keys, with all below them.
 */
const FREE = [
  "steps",
  "measureEvery",
  "startupCheck",
  "maxSkippedUpdates",
  "evaluateEvery",
  "evaluationModes",
  "checkpointEvery",
  "keepCheckpoints",
  "keepBest",
  "search",
  "microBatchTokens",
  "checkpointActivations",
  "distillation.judgeDeadline",
  "participants.retriever",
  "participants.judge",
];

/** Longest value that a message shows. */
const SHOWN = 60;

/**
 * Compares the settings of a run with those that it is to go on with.
 *
 * @param anyway - Go on although the result will be that of neither.
 * @returns What differs.
 * @throws {@link HindsearchError} `RUN_MISMATCH` naming each setting that changes what is computed.
 */
export async function compareSettings(
  run: RunDirectory,
  settings: TrainerSettings,
  anyway: boolean,
): Promise<Difference[]> {
  // As the file has them.
  const now = JSON.parse(JSON.stringify(redactSecrets(settings))) as unknown;
  const differences = compare(await run.config(), now, "");
  const refused = differences.filter(({ path }) => !FREE.some((free) => `${path}.`.startsWith(`${free}.`)));
  if (refused.length > 0 && !anyway) {
    throw new HindsearchError(
      "RUN_MISMATCH",
      `${run.folder} is the run of another configuration: ${refused.map(({ text }) => text).join("; ")}. Resume it with ` +
        'the settings in its config.json, choose another folder for the new ones, or give resume: "with-other-settings" ' +
        "to go on with them from here.",
    );
  }
  return differences;
}

/** One setting that is another than before. */
export interface Difference {
  /** Keys with dots between them. */
  path: string;
  /** Both values in words. */
  text: string;
}

function compare(before: unknown, now: unknown, path: string): Difference[] {
  if (isObject(before) && isObject(now)) {
    return [...new Set([...Object.keys(before), ...Object.keys(now)])].flatMap((key) =>
      compare(before[key], now[key], path === "" ? key : `${path}.${key}`),
    );
  }
  if (JSON.stringify(before) === JSON.stringify(now)) return [];
  return [{ path, text: `${path} was ${shown(before)} and is ${shown(now)}` }];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "not set";
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}
