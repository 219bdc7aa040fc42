/** Runs one of the cases of memory.test.ts in a process of its own and prints what was estimated and what it took. */
import { readFileSync } from "node:fs";
import {
  byHops,
  drawPath,
  engine,
  estimateMemory,
  HindSearchTrainer,
  type MemoryEstimate,
  MemoryRetriever,
  Policy,
  Random,
  ScriptedJudge,
  World,
  worldModel,
  worldProtocol,
} from "../../lib/index.js";

const [, , name, file] = process.argv;

/** Initialize, decode a little, forward and backward over 8 x 128 tokens, step. */
async function large(): Promise<MemoryEstimate> {
  const config = JSON.parse(readFileSync(file as string, "utf8"));
  const decoder = { cacheTokens: 1024, maxBatch: 8, prefillTokens: 128 };
  const estimate = estimateMemory(config, {
    compute: "bf16",
    frozenCopy: false,
    decoder,
    microBatchTokens: 1024,
    longestSequence: 128,
    threads: engine.threads,
  });
  const policy = await Policy.initialize({ config, compute: "bf16" });
  const random = new Random("memory");
  const draw = (length: number) => Int32Array.from({ length }, () => random.integer(150_000));
  await policy.generate([draw(64), draw(100)], { ...decoder, maxNewTokens: 4, endTokens: [] });
  const kept = await policy.createDecoder(decoder);
  const batch = Array.from({ length: 8 }, () => draw(128)).map((tokens) => ({
    tokens,
    weights: Float32Array.from(tokens, (_, t) => Number(t > 0)),
  }));
  await policy.forwardBackward(batch, { crossEntropy: {} });
  await policy.step({ learningRate: 1e-6 });
  kept.dispose();
  return estimate;
}

/** Some steps of the demo, with a frozen copy, reference and teacher. */
async function demo(): Promise<MemoryEstimate> {
  const world = new World(7);
  const policy = await Policy.initialize({ ...worldModel(), compute: "f32" });
  const paths = byHops(world.paths(world.ofKind("book")));
  const random = new Random("memory");
  const trainer = new HindSearchTrainer({
    policy,
    protocol: worldProtocol(),
    retriever: await MemoryRetriever.create(world.passages()),
    questions: Array.from({ length: 200 }, () => world.question(drawPath(paths, [0.1, 0.3, 0.6], random))),
    judge: new ScriptedJudge(world, "plan"),
    steps: 3,
    questionsPerStep: 40,
    groupSize: 5,
    learningRate: { kind: "constant", learningRate: 3e-4 },
    decoder: { maxBatch: 400 },
    checkpointActivations: false,
    // A model that has learned nothing writes little: these micro-batches are full nevertheless.
    microBatchTokens: 1024,
    onWarning: () => {},
  });
  for await (const _ of trainer);
  return trainer.memory();
}

const { peak, phases } = await (name === "demo" ? demo() : large());
const runtime = phases[peak.phase]?.parts.runtime ?? 0;
console.log(
  JSON.stringify({
    phase: peak.phase,
    estimated: peak.bytes,
    resident: process.resourceUsage().maxRSS * 1024,
    estimatedEngine: peak.bytes - runtime - (phases[peak.phase]?.parts.trajectories ?? 0),
    engine: engine.memory.peakBytes,
  }),
);
