/** Training steps in PyTorch. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { MODELS } from "../models.js";
import type { Contender, Sample } from "../rounds.js";
import type { Bench } from "../row.js";
import type { TrainTask } from "../work/train.js";

const SCRIPT = fileURLToPath(new URL("./train.py", import.meta.url));

/** The name that its results go by. */
export const TORCH = "PyTorch";

/** The same step in PyTorch, f32 or bf16 autocast; nothing if it is not there. */
export function torch({ peers, threads, signal }: Bench, task: TrainTask): Contender[] {
  const python = peers.torch;
  if (python === undefined) return [];
  const run = async (): Promise<Sample> => {
    const args = [SCRIPT, JSON.stringify({ ...task, ...MODELS[task.model], threads })];
    const { stdout } = await promisify(execFile)(python, args, { signal, env: withoutBlasChoice() });
    return JSON.parse(stdout) as Sample;
  };
  return [{ name: TORCH, run }];
}

/** OpenBLAS chooses its kernels best itself. */
function withoutBlasChoice(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("OPENBLAS_"));
  return Object.fromEntries(kept);
}
