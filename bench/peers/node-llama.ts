/** Decodes with node-llama-cpp, in a process of its own; it is imported from where it is installed. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { DecodeTask } from "../work/decode.js";

/** What to decode. */
export interface NodeLlamaTask extends DecodeTask {
  /** Where node-llama-cpp is installed. */
  folder: string;
  /** The GGUF file. */
  path: string;
  threads: number;
}

/** What we use of it. */
interface NodeLlama {
  getLlama(options: { gpu: false; build: "never"; logLevel: string }): Promise<{
    loadModel(options: {
      modelPath: string;
    }): Promise<{ createContext(options: ContextOptions): Promise<Context> }>;
  }>;
}
interface ContextOptions {
  sequences: number;
  contextSize: number;
  batchSize: number;
  threads: number;
}
interface Context {
  getSequence(): Sequence;
  dispose(): Promise<void>;
}
interface Sequence {
  evaluate(
    tokens: readonly number[],
    options: { temperature: number; topK: number; topP: number; yieldEogToken: true },
  ): AsyncIterable<number>;
}

/** It decodes slowly at a large vocabulary, and its rate does not depend on how long. */
const MOST_TOKENS = 16;

process.once("message", async (task: NodeLlamaTask) => {
  process.send?.(await decode(task), undefined, undefined, () => process.exit());
});

async function decode({ folder, path, batches, prompt, newTokens, threads }: NodeLlamaTask) {
  const entry = createRequire(join(folder, "x.js")).resolve("node-llama-cpp");
  const { getLlama } = (await import(pathToFileURL(entry).href)) as NodeLlama;
  const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
  const model = await llama.loadModel({ modelPath: path });
  const rates: Record<string, number> = {};
  const wanted = Math.min(newTokens, MOST_TOKENS);
  for (const batch of batches) {
    const context = await model.createContext({
      sequences: batch,
      contextSize: prompt + wanted + 8,
      batchSize: 512,
      threads,
    });
    let started = 0;
    let tokens = 0;
    let waiting = batch;
    let begin = () => {};
    const allBegun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const write = async (index: number) => {
      const text = Array.from({ length: prompt }, (_, i) => 300 + ((i * 7 + index * 13) % 7000));
      let written = 0;
      const options = { temperature: 1, topK: 0, topP: 1, yieldEogToken: true } as const;
      for await (const _ of context.getSequence().evaluate(text, options)) {
        // The time of prompts is not counted: decoding begins when every sequence has its first token.
        if (written === 0 && --waiting === 0) {
          started = performance.now();
          begin();
        }
        if (written === 0) await allBegun;
        else tokens++;
        if (++written > wanted) break;
      }
    };
    await Promise.all(Array.from({ length: batch }, (_, index) => write(index)));
    rates[`batch ${batch}`] = (1e3 * tokens) / (performance.now() - started);
    await context.dispose();
  }
  return rates;
}
