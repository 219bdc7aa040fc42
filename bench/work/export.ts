/** Writes a model for the peers that read GGUF. */
import { rename } from "node:fs/promises";
import { Policy } from "hindsearch";
import { configOf, MODELS, type ModelShape } from "../models.js";
import { writeGguf } from "../peers/gguf.js";

/** What to write where. */
export interface ExportTask {
  model: ModelShape["name"];
  path: string;
}

/** The file gets its name when it is whole. */
export async function work({ model, path }: ExportTask): Promise<void> {
  using policy = await Policy.initialize({ config: configOf(MODELS[model]), seed: 1 });
  await writeGguf(policy, `${path}.partial`);
  await rename(`${path}.partial`, path);
}
