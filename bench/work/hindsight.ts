/** Training steps of the demo by HindSearch and by plain GRPO, in turn, over the same rollouts. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  byHops,
  drawPath,
  HindSearchTrainer,
  MemoryRetriever,
  Policy,
  Random,
  ScriptedJudge,
  type TrainingStepResult,
  World,
  worldProtocol,
} from "hindsearch";
import { SETTINGS } from "../../examples/world/settings.js";

/** What to train. */
export interface HindsightTask {
  /** Folder of the demo's warm start. */
  warmStart: string;
  /** GRPO steps before measuring: to the failure rate of the middle of a run. */
  before: number;
  /** Pairs of steps to measure, after one that is not. */
  pairs: number;
}

/** Of one pair of steps. */
export interface HindsightPair {
  /** Wall-clock milliseconds. */
  grpo: number;
  hindsearch: number;
  /** Share of the trajectories that failed, in both. */
  failed: number;
}

/** Measures pairs; the one that goes first changes. */
export async function work({ warmStart, before, pairs }: HindsightTask): Promise<HindsightPair[]> {
  const folder = await mkdtemp(join(tmpdir(), "hindsearch-bench-"));
  try {
    await train(warmStart, before, folder);
    using plain = await Policy.load(folder, { compute: "f32" });
    using taught = await Policy.load(folder, { compute: "f32" });
    // A learning rate of 0 keeps the weights, so that both go on sampling the same trajectories.
    const steps = pairs + 1;
    const grpo = (await trainer(plain, "grpo", steps, 0))[Symbol.asyncIterator]();
    const hindsearch = (await trainer(taught, "hindsearch", steps, 0))[Symbol.asyncIterator]();
    const results: HindsightPair[] = [];
    for (let step = 0; step < steps; step++) {
      const turns = step % 2 === 0 ? [grpo, hindsearch] : [hindsearch, grpo];
      const timed = new Map<typeof grpo, Timed>();
      for (const turn of turns) timed.set(turn, await timedStep(turn));
      const [one, other] = [timed.get(grpo), timed.get(hindsearch)] as [Timed, Timed];
      if (tokensOf(one.step) !== tokensOf(other.step))
        throw new Error("The two did not sample the same text.");
      if (step === 0) continue;
      const failed = one.step.metrics.rollout.failedShare ?? Number.NaN;
      results.push({ grpo: one.milliseconds, hindsearch: other.milliseconds, failed });
    }
    return results;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function train(warmStart: string, steps: number, folder: string): Promise<void> {
  using policy = await Policy.load(warmStart, { compute: "f32" });
  for await (const _ of await trainer(policy, "grpo", steps, SETTINGS.learningRate));
  await policy.save(folder);
}

async function trainer(policy: Policy, arm: "grpo" | "hindsearch", steps: number, learningRate: number) {
  const world = new World(SETTINGS.trainingWorld);
  const paths = byHops(world.paths(world.ofKind("book")));
  const random = new Random("bench", 1);
  const questions = Array.from({ length: steps * SETTINGS.questionsPerStep }, () =>
    world.question(drawPath(paths, SETTINGS.hops, random)),
  );
  return new HindSearchTrainer({
    policy,
    protocol: worldProtocol(),
    retriever: await MemoryRetriever.create(world.passages()),
    questions,
    ...(arm === "hindsearch"
      ? { judge: new ScriptedJudge(world, "plan"), distillation: { weight: SETTINGS.distillationWeight } }
      : { distillation: false as const }),
    steps,
    seed: 1,
    questionsPerStep: SETTINGS.questionsPerStep,
    groupSize: SETTINGS.groupSize,
    miniBatches: 2,
    kl: { weight: SETTINGS.kl },
    learningRate: { kind: "constant", learningRate },
    decoder: { maxBatch: 400 },
    checkpointActivations: false,
    measureEvery: 0,
    startupCheck: { trajectories: 0 },
    checkpointEvery: 0,
  });
}

interface Timed {
  step: TrainingStepResult;
  milliseconds: number;
}

async function timedStep(steps: AsyncIterator<TrainingStepResult>): Promise<Timed> {
  const started = performance.now();
  const { value, done } = await steps.next();
  if (done) throw new Error("The trainer ended early.");
  return { step: value, milliseconds: performance.now() - started };
}

const tokensOf = ({ groups }: TrainingStepResult) =>
  groups
    .flat()
    .map(({ trajectory }) => trajectory.tokens.join(" "))
    .join("\n");
