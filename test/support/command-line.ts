import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { colourOf, TINY_QUESTIONS, warmPolicy } from "../../examples/own-loop/tiny-world.js";
import { builtPackage, type ChildResult } from "./built-package.js";

/** One line of `--json`. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into it freely
export type CommandEvent = Record<string, any> & { event: string };

/** What a command said and how it ended. */
export interface CommandResult extends ChildResult {
  /** Of `--json`. */
  events: CommandEvent[];
}

/** How a command is run. */
export interface CommandSetting {
  /** Added to the environment. */
  env?: Record<string, string>;
  /** Hears of every line of `--json`, and may send signals. */
  onEvent?: (event: CommandEvent, child: ChildProcess) => void;
}

/** A small protocol for the tiny world of the examples. */
const PROTOCOL = `protocol:
  prompt: "{question}"
  chat: false
  tags: { information: { open: <info>, close: </info> } }
  maxSearches: 2
  passagesPerSearch: 1
  maxTurnTokens: 6
  maxObservationTokens: 12
  maxTokens: 64
`;

const lines = (rows: readonly object[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");

/**
 * The built command line, and a project to run it in: `model`, `corpus.jsonl`, `train.jsonl`, `dev.jsonl` and
 * `train.yaml`, as a user has them.
 */
export function commandLine() {
  const built = builtPackage();
  const project = { folder: "" };
  const path = (...names: string[]) => join(project.folder, ...names);

  beforeAll(async () => {
    project.folder = await mkdtemp(join(tmpdir(), "hindsearch-project-"));
    using policy = await warmPolicy();
    await policy.save(path("model"));
    const questions = TINY_QUESTIONS.map(({ id, question, goldAnswers }) => ({
      id,
      question,
      golden_answers: goldAnswers,
    }));
    await writeFile(path("train.jsonl"), lines(questions.slice(0, 6)));
    await writeFile(path("dev.jsonl"), lines(questions.slice(6)));
    const passages = TINY_QUESTIONS.map(({ id }) => ({ id, title: id, text: `${id} is ${colourOf(id)}` }));
    await writeFile(path("corpus.jsonl"), lines(passages));
    await writeFile(path("train.yaml"), configuration());
  });
  afterAll(() => rm(project.folder, { recursive: true, force: true }));

  /** Runs a command in the project. */
  function run(args: readonly string[], { env = {}, onEvent }: CommandSetting = {}): Promise<CommandResult> {
    const child = spawn(process.execPath, [join(built.folder, "dist/cli/main.js"), ...args], {
      cwd: project.folder,
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const result: CommandResult = { code: null, signal: null, stdout: "", stderr: "", events: [] };
    let rest = "";
    child.stdout.on("data", (chunk) => {
      result.stdout += chunk;
      const whole = (rest + chunk).split("\n");
      rest = whole.pop() ?? "";
      for (const line of whole.filter((one) => one.startsWith('{"event"'))) {
        const event = JSON.parse(line) as CommandEvent;
        result.events.push(event);
        onEvent?.(event, child);
      }
    });
    child.stderr.on("data", (chunk) => {
      result.stderr += chunk;
    });
    return new Promise((done) => {
      child.on("close", (code, signal) => done({ ...result, code, signal }));
    });
  }

  /** Digest of the weights of a checkpoint. */
  async function weights(runFolder: string, step: number): Promise<string> {
    const name = `step-${String(step).padStart(8, "0")}`;
    const file = path(runFolder, "checkpoints", name, "model/model.safetensors");
    return createHash("sha256")
      .update(await readFile(file))
      .digest("hex");
  }

  return { built, path, run, weights };
}

/** A configuration of the project; `more` goes behind it. */
export function configuration(more = ""): string {
  return `model: { folder: model, compute: f32, threads: 1 }
data: { questions: train.jsonl }
retriever: { kind: memory, corpus: corpus.jsonl }
${PROTOCOL}training:
  steps: 4
  questionsPerStep: 6
  learningRate: { learningRate: 2e-3, warmupSteps: 0 }
  measureEvery: 2
  decoder: { cacheTokens: 8192 }
evaluation: { questions: dev.jsonl, every: 2 }
run: { folder: run, checkpointEvery: 2, keepCheckpoints: 100 }
${more}`;
}
