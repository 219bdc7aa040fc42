/** Prompts and decoding in llama.cpp, by its own tools, and in node-llama-cpp. */
import { execFile, fork } from "node:child_process";
import { access, mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { inFreshProcess } from "../fresh-process.js";
import { type Contender, median, type Sample } from "../rounds.js";
import type { Bench } from "../row.js";
import type { DecodeTask } from "../work/decode.js";
import type { ExportTask } from "../work/export.js";
import type { PromptTask } from "../work/prompt.js";
import type { NodeLlamaTask } from "./node-llama.js";

const run = promisify(execFile);
const MODELS_FOLDER = resolve(import.meta.dirname, "../../build/bench/models");

/** The names that results go by. */
export const LLAMA = "llama.cpp";
export const NODE_LLAMA = "node-llama-cpp";

/** Decoding by llama-batched-bench: a shared prompt, keys and values in f16, no sampling. */
export function llamaDecode(
  bench: Bench,
  { model, batches, prompt, newTokens, repeats }: DecodeTask,
): Contender[] {
  const { llama } = bench.peers;
  if (llama === undefined) return [];
  const context = Math.max(...batches) * (prompt + newTokens + 64);
  const repeated = batches.flatMap((batch) => Array.from({ length: repeats }, () => batch));
  return [
    {
      name: LLAMA,
      run: async () => {
        const lines = await llamaTool<{ pl: number; speed_tg: number }>(
          bench,
          join(llama, "llama-batched-bench"),
          [
            ...["-m", await modelFile(bench, model), "-c", context, "-b", 2048, "-ub", 512, "-pps"],
            ...["-npp", prompt, "-ntg", newTokens, "-npl", repeated.join(","), "--output-format", "jsonl"],
          ],
        );
        const of = (batch: number) => lines.filter(({ pl }) => pl === batch).map(({ speed_tg }) => speed_tg);
        return Object.fromEntries(batches.map((batch) => [`batch ${batch}`, median(of(batch))]));
      },
    },
  ];
}

/** A prompt by llama-bench, whose median of three it gives. */
export function llamaPrompt(bench: Bench, { model, length }: PromptTask): Contender[] {
  const { llama } = bench.peers;
  if (llama === undefined) return [];
  return [
    {
      name: LLAMA,
      run: async () => {
        const lines = await llamaTool<{ samples_ts: number[] }>(bench, join(llama, "llama-bench"), [
          ...["-m", await modelFile(bench, model), "-p", length, "-n", 0, "-r", 3, "-o", "jsonl"],
        ]);
        return { rate: median(lines[0]?.samples_ts ?? []) };
      },
    },
  ];
}

/** Decoding in node-llama-cpp as installed, sampling over the full vocabulary. */
export function nodeLlamaDecode(bench: Bench, task: DecodeTask): Contender[] {
  const folder = bench.peers.nodeLlama;
  if (folder === undefined) return [];
  return [
    {
      name: NODE_LLAMA,
      run: async () => {
        const path = await modelFile(bench, task.model);
        return nodeLlamaRun({ ...task, folder, path, threads: bench.threads }, bench.signal);
      },
    },
  ];
}

function nodeLlamaRun(task: NodeLlamaTask, signal: AbortSignal): Promise<Sample> {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(new URL("./node-llama.ts", import.meta.url)), { signal });
    let sample: Sample | undefined;
    child.on("message", (message: Sample) => {
      sample = message;
    });
    child.on("error", reject);
    child.on("close", (code, killed) =>
      sample ? resolve(sample) : reject(new Error(`${NODE_LLAMA} gave no result (${killed ?? code}).`)),
    );
    child.send(task);
  });
}

async function llamaTool<Line>(
  bench: Bench,
  path: string,
  args: readonly (string | number)[],
): Promise<Line[]> {
  const all = [...args.map(String), "-t", String(bench.threads)];
  const { stdout } = await run(path, all, { signal: bench.signal, maxBuffer: 1 << 26 });
  return stdout
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Line);
}

async function modelFile(bench: Bench, model: ExportTask["model"]): Promise<string> {
  const path = join(MODELS_FOLDER, `${model}-bf16.gguf`);
  const isThere = await access(path).then(
    () => true,
    () => false,
  );
  if (isThere) return path;
  await mkdir(MODELS_FOLDER, { recursive: true });
  await inFreshProcess<ExportTask, void>(
    new URL("../work/export.ts", import.meta.url),
    { model, path },
    bench,
  );
  return path;
}
