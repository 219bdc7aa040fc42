import { HindsearchError } from "../errors.js";
import type { Arena, NativeModel, TensorSink, TensorSource } from "../native/addon.js";
import { callNative, callNativeSync } from "../native/call.js";
import { buildSafetensorsHeader, readSafetensorsHeader, type TensorToWrite } from "./safetensors.js";
import { saveTensors } from "./save.js";

/**
 * What training needs to go on exactly where it was: the float32 master weights (a saved bf16 model has lost them) and
 * AdamW's moments, as one safetensors file. Tensors are called `weights.<parameter>`, `firstMoments.<parameter>` and
 * `secondMoments.<parameter>`; the metadata hold format and step.
 */
const FORMAT = "hindsearch-optimizer-1";
const ARENAS: readonly Arena[] = ["weights", "firstMoments", "secondMoments"];

/**
 * @throws {@link HindsearchError} `IO`, `ABORTED`.
 * @internal
 */
export async function saveOptimizer(native: NativeModel, path: string, signal?: AbortSignal): Promise<void> {
  const { parameters, optimizerStep } = callNativeSync(() => ({
    parameters: native.parameters,
    optimizerStep: native.optimizerStep,
  }));
  const tensors: TensorToWrite[] = [];
  const sinks: TensorSink[] = [];
  for (const arena of ARENAS) {
    for (const { name, shape } of parameters) {
      tensors.push({ name: `${arena}.${name}`, type: "f32", shape });
      sinks.push({ name, type: "f32", arena });
    }
  }
  const header = buildSafetensorsHeader(tensors, { format: FORMAT, step: String(optimizerStep) });
  await saveTensors(native, path, header, sinks, signal);
}

/**
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT` if the file is none of ours, damaged, or of another model; the
 * model is as before then. `IO`, `ABORTED`.
 * @internal
 */
export async function loadOptimizer(native: NativeModel, path: string, signal?: AbortSignal): Promise<void> {
  const { metadata, tensors, dataOffset } = await readSafetensorsHeader(path);
  const step = Number(metadata.step);
  if (metadata.format !== FORMAT || !/^\d+$/.test(metadata.step ?? "") || !Number.isSafeInteger(step)) {
    throw invalid(path, `its metadata are not those of format ${FORMAT}`);
  }
  const parameters = callNativeSync(() => native.parameters);
  const sources = ARENAS.map((arena) =>
    parameters.map(({ name, shape }): TensorSource => {
      const entry = tensors.get(`${arena}.${name}`);
      if (entry?.dtype !== "F32" || entry.shape.join() !== shape.join()) {
        throw invalid(
          path,
          `it lacks ${arena}.${name} as F32 [${shape.join(", ")}]; is it of another model?`,
        );
      }
      const { begin, end } = entry;
      return { name, path, offset: dataOffset + begin, bytes: end - begin, type: "f32", shape: [...shape] };
    }),
  );
  if (tensors.size !== ARENAS.length * parameters.length) {
    throw invalid(path, `it holds ${tensors.size} tensors, this model has ${parameters.length} parameters`);
  }
  for (const [index, arena] of ARENAS.entries()) {
    await callNative(
      (cancellation) => native.loadArena(arena, sources[index] as TensorSource[], cancellation),
      signal,
    );
  }
  await callNative(() => native.setOptimizerStep(step));
}

function invalid(path: string, what: string): HindsearchError {
  return new HindsearchError("INVALID_CHECKPOINT", `Optimizer state ${path}: ${what}.`);
}
