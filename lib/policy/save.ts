import { randomUUID } from "node:crypto";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { HindsearchError } from "../errors.js";
import { makeFolder } from "../make-folder.js";
import type { MadeModel } from "../native/addon.js";
import { callCancellable, callNativeSync } from "../native/call.js";
import type { StorageType, TensorSink } from "../native/model.js";
import { syncFolder, writeFileDurably } from "../runs/durable.js";
import { type ModelFiles, removeWeights } from "./model-files.js";
import { buildSafetensorsHeader, type TensorToWrite } from "./safetensors.js";

const WEIGHTS_FILE = "model.safetensors";

/**
 * Writes a model folder: the small files, then the weights as one `model.safetensors` that takes its name only when
 * it is whole and on disk. Weights that were in the folder before are deleted just before that.
 *
 * @param folder - Made if it is not there.
 * @param storage - What every parameter is stored as.
 * @throws {@link HindsearchError} `IO`, `ABORTED`, `INVALID_ARGUMENT` for a weight too large for its type. Nothing
 * half-written is left behind, and the weights that were there before still are.
 * @internal
 */
export async function saveModel(
  model: MadeModel,
  folder: string,
  files: ModelFiles,
  storage: (parameter: string) => StorageType,
  signal?: AbortSignal,
): Promise<void> {
  const parameters = callNativeSync(() => model.native.parameters);
  const tensors: TensorToWrite[] = parameters.map(({ name, shape }) => ({
    name,
    type: storage(name),
    shape,
  }));
  const sinks: TensorSink[] = tensors.map(({ name, type }) => ({ name, type, arena: "weights" }));
  await toIoError(folder, async () => {
    await makeFolder(folder);
    await withPartial(join(folder, WEIGHTS_FILE), async (partial) => {
      await writeTensors(model, partial, buildSafetensorsHeader(tensors), sinks, signal);
      for (const [name, contents] of files) await writeFileDurably(join(folder, name), contents);
      await removeWeights(folder, WEIGHTS_FILE);
    });
  });
}

/**
 * Writes tensors of a model to one file, which is replaced only by a whole one.
 *
 * @throws {@link HindsearchError} As {@link saveModel}.
 * @internal
 */
export async function saveTensors(
  model: MadeModel,
  path: string,
  header: Uint8Array,
  sinks: TensorSink[],
  signal?: AbortSignal,
): Promise<void> {
  await toIoError(path, () =>
    withPartial(path, (partial) => writeTensors(model, partial, header, sinks, signal)),
  );
}

function writeTensors(
  { native, addon }: MadeModel,
  path: string,
  header: Uint8Array,
  sinks: TensorSink[],
  signal: AbortSignal | undefined,
): Promise<void> {
  return callCancellable(addon, (cancellation) => native.save(path, header, sinks, cancellation), signal);
}

/** Lets `write` make a file under a name of its own, and renames it to `path`. */
async function withPartial(path: string, write: (partial: string) => Promise<void>): Promise<void> {
  const partial = `${path}.${randomUUID()}.partial`;
  try {
    await write(partial);
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
  await syncFolder(join(path, ".."));
}

async function toIoError(place: string, body: () => Promise<void>): Promise<void> {
  try {
    await body();
  } catch (cause) {
    if (cause instanceof HindsearchError) throw cause;
    throw new HindsearchError("IO", `Cannot write ${place}: ${(cause as Error).message}.`, { cause });
  }
}
