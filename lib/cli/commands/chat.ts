import { createInterface } from "node:readline/promises";
import { type Command, InvalidArgumentError } from "commander";
import { BoundProtocol } from "../../agent/bound-protocol.js";
import { FULL_SAMPLING, type Trajectory } from "../../agent/trajectory.js";
import { type AgentEvent, watchAgent } from "../../agent/watched-agent.js";
import { defined } from "../../config/defined.js";
import { Held } from "../../config/held.js";
import { openPolicy } from "../../config/open-policy.js";
import { openRetriever } from "../../config/open-training.js";
import { protocolOf } from "../../config/protocol.js";
import { type CommandContext, onRun, withModel } from "../context.js";
import { oneText, wholeNumber } from "../options.js";
import type { OutputStreams } from "../output.js";
import { readTarget, type TargetOptions } from "../run-folder.js";
import { manyLines, oneLine } from "../text.js";

interface ChatOptions extends TargetOptions {
  temperature: number;
  seed: number;
}

/** Characters of a passage that are shown. */
const SHOWN = 300;

/** `hindsearch chat`. */
export function chatCommand(program: Command, streams: OutputStreams): void {
  const command = withModel(program.command("chat"))
    .description("watch a model search and answer, turn by turn")
    .argument("<run>", "a run folder, whose latest checkpoint answers; or a configuration")
    .argument("[question...]", "what to answer; without one, questions are read line by line")
    .option("--checkpoint <steps>", "the checkpoint after so many steps, latest, best, or initial")
    .option("--model <folder>", "a model folder instead")
    .option("--temperature <number>", "of the sampling; 0 takes the likeliest tokens", temperature, 0)
    .option("--seed <number>", "of the sampling", wholeNumber(0), 0);
  onRun(command, streams, chat);
}

async function chat(
  context: CommandContext,
  options: ChatOptions,
  path: string,
  words: string[],
): Promise<void> {
  const { output, interrupt } = context;
  const asked = words.length > 0 ? [oneText(words)] : undefined;
  const { configuration, model } = await readTarget(context, path, options);
  const { training, protocol } = configuration.values;
  const signal = interrupt.stop;
  const held = new Held();
  try {
    const opened = held.add(await openRetriever(configuration, { signal }));
    const policy = held.add(await openPolicy(configuration, { folder: model, signal }));
    const decoder = held.add(await policy.createDecoder({ ...defined(training.decoder), maxBatch: 1 }));
    const bound = new BoundProtocol(protocolOf(protocol), policy);
    for await (const question of asked ?? lines(signal)) {
      if (question.trim() === "") continue;
      output.event("question", { question });
      const trajectory = await watchAgent(question, {
        ...training.search,
        decoder,
        retriever: opened.retriever,
        protocol: bound,
        tokenizer: policy.tokenizer,
        sampling: { ...FULL_SAMPLING, temperature: options.temperature },
        seed: options.seed,
        signal,
        onEvent: (event) => show(context, event),
        onWarning: (warning) => output.warn(warning),
      });
      showAnswer(context, trajectory);
    }
  } finally {
    await held.release();
  }
}

async function* lines(signal: AbortSignal): AsyncGenerator<string> {
  const reader = createInterface({ input: process.stdin, signal });
  if (process.stdin.isTTY) process.stderr.write("A question a line; Ctrl-D ends.\n");
  yield* reader;
}

function show({ output }: CommandContext, event: AgentEvent): void {
  const { kind, ...fields } = event;
  output.event(kind, fields);
  if (event.kind === "turn") {
    output.line(`agent:\n${indented(manyLines(event.text))}`);
    return;
  }
  output.line(`found for ${JSON.stringify(oneLine(event.query, SHOWN))}:`);
  if (event.passages.length === 0) output.line("  nothing");
  for (const [rank, { title, text }] of event.passages.entries()) {
    output.line(`  ${rank + 1}. ${oneLine(title, SHOWN)}: ${oneLine(text, SHOWN)}`);
  }
}

function showAnswer({ output }: CommandContext, { answer, status, searches, turns }: Trajectory): void {
  const ended = status === "answered" ? "" : ` (${status})`;
  output.line(`answer: ${answer === null ? "none" : oneLine(answer)}${ended}`);
  output.line();
  output.event("answer", { answer, status, turns, searches: searches.length });
}

function indented(text: string): string {
  return text
    .split("\n")
    .map((line) => `  ${line}`)
    .join("\n");
}

function temperature(text: string): number {
  const number = Number(text);
  if (text.trim() !== "" && number >= 0 && number <= 1e4) return number;
  throw new InvalidArgumentError("Expected a number from 0 to 10000.");
}
