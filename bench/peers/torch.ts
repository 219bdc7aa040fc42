/** Training steps in PyTorch. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { MODELS } from "../models.js";
import type { Contender, Sample } from "../rounds.js";
import type { Bench } from "../row.js";
import type { TrainTask } from "../work/train.js";

const SCRIPT = fileURLToPath(new URL("./train.py", import.meta.url));

/** The names that their results go by: of `train.py`, and of the program that was given. */
export const TORCH = "PyTorch";
export const TORCH_SCRIPT = "PyTorch, given script";

/** The same step in PyTorch, f32 or bf16 autocast; nothing if it is not there. */
export function torch({ peers, threads, signal }: Bench, task: TrainTask): Contender[] {
  const { torch: python, torchScript } = peers;
  if (python === undefined) return [];
  const start = async (...args: string[]): Promise<string> =>
    (await promisify(execFile)(python, args, { signal, env: withoutBlasChoice() })).stdout;
  const own = async () =>
    JSON.parse(await start(SCRIPT, JSON.stringify({ ...task, ...MODELS[task.model], threads }))) as Sample;
  const given = async (script: string): Promise<Sample> => {
    const { model, compute, steps, batch, length } = task;
    const numbers = [threads, steps, batch, length, 1].map(String);
    const printed = await start(script, model.toLowerCase(), compute === "bf16" ? "amp" : "f32", ...numbers);
    return { rate: Number(/tok\/s=([\d.]+)/.exec(printed)?.[1]) };
  };
  return [
    { name: TORCH, run: own },
    ...(torchScript === undefined ? [] : [{ name: TORCH_SCRIPT, run: () => given(torchScript) }]),
  ];
}

/** OpenBLAS chooses its kernels best itself. */
function withoutBlasChoice(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("OPENBLAS_"));
  return Object.fromEntries(kept);
}
