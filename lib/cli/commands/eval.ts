import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { BoundProtocol } from "../../agent/bound-protocol.js";
import { defined } from "../../config/defined.js";
import { Held } from "../../config/held.js";
import { openPolicy } from "../../config/open-policy.js";
import { openRetriever, questionsOf } from "../../config/open-training.js";
import { protocolOf } from "../../config/protocol.js";
import type { ReadConfiguration } from "../../config/read.js";
import type { Question } from "../../data/question.js";
import { loadQuestions } from "../../data/questions.js";
import { HindsearchError } from "../../errors.js";
import { type EvaluationReport, evaluate } from "../../evaluation/evaluate.js";
import { type CommandContext, onRun, withModel } from "../context.js";
import { wholeNumber } from "../options.js";
import type { OutputStreams } from "../output.js";
import { readTarget, type TargetOptions } from "../run-folder.js";
import { duration, rate, score } from "../text.js";

interface EvalOptions extends TargetOptions {
  questions?: string;
  limit?: number;
  sampled?: boolean;
  output?: string;
}

/** `hindsearch eval`. */
export function evalCommand(program: Command, streams: OutputStreams): void {
  const command = withModel(program.command("eval"))
    .description("answer a file of questions with a model and score the answers")
    .argument(
      "<run>",
      "a run folder, whose latest checkpoint is evaluated; or a configuration, whose initial model is",
    )
    .option("--questions <file>", "JSON Lines of questions; default: the configured evaluation questions")
    .option("--limit <number>", "only so many questions from the start", wholeNumber(1))
    .option("--checkpoint <steps>", "the checkpoint after so many steps, latest, best, or initial")
    .option("--model <folder>", "a model folder instead")
    .option("--sampled", "sample as in training instead of decoding greedily")
    .option("--output <file>", "write the report with every answer as JSON");
  onRun(command, streams, evaluateTarget);
}

async function evaluateTarget(context: CommandContext, options: EvalOptions, path: string): Promise<void> {
  const { output, interrupt } = context;
  const { configuration, model, step } = await readTarget(context, path, options);
  const { training, protocol, evaluation } = configuration.values;
  const signal = interrupt.stop;
  const held = new Held();
  try {
    const questions = await readQuestions(configuration, options, signal);
    const retriever = await openRetriever(configuration, { signal }, "evaluation");
    held.add(retriever);
    const policy = held.add(await openPolicy(configuration, { folder: model, signal }));
    const decoder = held.add(await policy.createDecoder(defined(training.decoder)));
    const started = performance.now();
    const report = await evaluate({
      ...training.search,
      decoder,
      retriever: retriever.retriever,
      protocol: new BoundProtocol(protocolOf(protocol), policy),
      questions,
      sampling: options.sampled ? training.sampling : { temperature: 0 },
      seed: training.seed,
      corpus: evaluation?.corpus ?? "unnamed",
      signal,
      onWarning: (warning) => output.warn(warning),
      onProgress: ({ done, total, searches }) =>
        output.progress(
          () =>
            `${done} of ${total} questions, ${rate(done, performance.now() - started)}/s, ${searches} searches`,
          () => ({ phase: "evaluation", done, total, searches }),
          done === total,
        ),
    });
    if (options.output) await writeReport(options.output, { step, model, ...report });
    show(context, report, step);
  } finally {
    await held.release();
  }
}

async function readQuestions(
  configuration: ReadConfiguration,
  { questions, limit }: EvalOptions,
  signal: AbortSignal,
): Promise<Question[]> {
  const reading = { signal, ...defined({ limit }) };
  if (questions === undefined && configuration.values.evaluation !== undefined)
    return questionsOf(configuration, "evaluation", reading);
  if (questions === undefined) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      "There are no questions to evaluate on: give --questions FILE, or evaluation.questions in the configuration.",
    );
  }
  return loadQuestions(resolve(questions), reading).catch((error) => {
    if (!(error instanceof HindsearchError) || error.code !== "IO") throw error;
    throw new HindsearchError("IO", `--questions ${questions}: ${error.message}`, { cause: error });
  });
}

async function writeReport(file: string, report: object): Promise<void> {
  await writeFile(file, `${JSON.stringify(report, null, 1)}\n`).catch((cause) => {
    throw new HindsearchError("IO", `Cannot write the report to ${file}: ${(cause as Error).message}.`, {
      cause,
    });
  });
}

function show({ output }: CommandContext, report: EvaluationReport, step: number | undefined): void {
  const { exactMatch, f1, containment, searches, statuses, results, milliseconds } = report;
  const ended = Object.entries(statuses).filter(([, count]) => count > 0);
  const rows = [
    ["model", step === undefined ? "as it was before training, or as given" : `after ${step} training steps`],
    ["questions", String(results.length)],
    ["exact match", score(exactMatch)],
    ["F1", score(f1)],
    ["containment", score(containment)],
    ["searches", `${score(searches)} per question`],
    ["ended", ended.map(([status, count]) => `${status} ${count}`).join(", ")],
    ["time", `${duration(milliseconds)}, ${rate(results.length, milliseconds)} questions/s`],
  ];
  for (const [name = "", text] of rows) output.line(`${name.padEnd(13)}${text}`);
  output.event("evaluation", { step: step ?? null, ...report });
}
