import { type FileHandle, open } from "node:fs/promises";
import { throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import type { MadeModel } from "../native/addon.js";
import { callCancellable, callNative, callNativeSync } from "../native/call.js";
import type { Arena, TensorSink, TensorSource } from "../native/model.js";
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
export async function saveOptimizer(model: MadeModel, path: string, signal?: AbortSignal): Promise<void> {
  const { parameters, optimizerStep } = callNativeSync(() => ({
    parameters: model.native.parameters,
    optimizerStep: model.native.optimizerStep,
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
  await saveTensors(model, path, header, sinks, signal);
}

/**
 * @throws {@link HindsearchError} `INVALID_CHECKPOINT` if the file is none of ours, damaged, or of another model; the
 * model is as before then. `IO`, `ABORTED`.
 * @internal
 */
export async function loadOptimizer(
  { native, addon }: MadeModel,
  path: string,
  signal?: AbortSignal,
): Promise<void> {
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
  // All before the first one is loaded: a file that is refused changes nothing.
  for (const [index, arena] of ARENAS.entries()) {
    await checkNumbers(path, arena, sources[index] as TensorSource[], signal);
  }
  for (const [index, arena] of ARENAS.entries()) {
    await callCancellable(
      addon,
      (cancellation) => native.loadArena(arena, sources[index] as TensorSource[], cancellation),
      signal,
    );
  }
  await callNative(() => native.setOptimizerStep(step));
}

/** Small enough that looking through it does not hold up the event loop. */
const CHUNK_BYTES = 1 << 20;
const LARGEST = 3.4028234663852886e38;

/** Refuses what AdamW cannot have written: NaN, infinities, and negative squares. */
async function checkNumbers(
  path: string,
  arena: Arena,
  tensors: readonly TensorSource[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const least = arena === "secondMoments" ? 0 : -LARGEST;
  const numbers = new Float32Array(CHUNK_BYTES / Float32Array.BYTES_PER_ELEMENT);
  const bytes = new Uint8Array(numbers.buffer);
  let file: FileHandle | undefined;
  try {
    file = await open(path);
    for (const { name, offset, bytes: size } of tensors) {
      for (let done = 0; done < size; ) {
        throwIfAborted(signal);
        const wanted = Math.min(CHUNK_BYTES, size - done);
        const { bytesRead } = await file.read(bytes, 0, wanted, offset + done);
        if (bytesRead < wanted) throw invalid(path, `it ends within ${arena}.${name}`);
        const bad = numbers
          .subarray(0, wanted / Float32Array.BYTES_PER_ELEMENT)
          // Written so that NaN is found.
          .findIndex((value) => !(value >= least && value <= LARGEST));
        if (bad >= 0) {
          const place = done / Float32Array.BYTES_PER_ELEMENT + bad;
          const expected = arena === "secondMoments" ? "a finite number, 0 or more" : "a finite number";
          throw invalid(path, `${arena}.${name}: entry ${place} is ${numbers[bad]}, expected ${expected}`);
        }
        done += wanted;
      }
    }
  } catch (cause) {
    if (cause instanceof HindsearchError) throw cause;
    throw new HindsearchError("IO", `Cannot read ${path}: ${(cause as Error).message}.`, { cause });
  } finally {
    await file?.close();
  }
}

function invalid(path: string, what: string): HindsearchError {
  return new HindsearchError("INVALID_CHECKPOINT", `Optimizer state ${path}: ${what}.`);
}
