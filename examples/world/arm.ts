/** One run: an arm of the experiment with one seed, from the warm start to the last evaluation. */
import {
  byHops,
  ChatJudge,
  drawPath,
  HindSearchTrainer,
  type Judge,
  MemoryRetriever,
  Policy,
  type Question,
  Random,
  ScriptedJudge,
  World,
  type WorldEntity,
  worldProtocol,
} from "hindsearch";
import { type Arm, distillation, SETTINGS } from "./settings.js";

/** What a run needs to know. */
export interface ArmTask {
  arm: Arm;
  seed: number;
  steps: number;
  weight: number;
  /** Folder of the warm start. */
  warmStart: string;
  /** Folder of the run; nothing is written without one. */
  runFolder?: string;
  /** A real judge instead of the scripted one. */
  judge?: { url: string; model: string };
}

/** Exact match after so many training steps. */
export interface EvaluationPoint {
  step: number;
  sampled: number;
  greedy: number;
}

/** What a run tells while it goes on. */
export interface ArmProgress {
  step: number;
  reward: number | null;
  milliseconds: number;
  evaluation?: EvaluationPoint;
}

/** What came out. */
export interface ArmResult extends Pick<ArmTask, "arm" | "seed" | "weight"> {
  curve: EvaluationPoint[];
  /** Health of the signal on the measured steps. */
  signal: {
    step: number;
    failedShare: number | null;
    allFailGroups: number;
    tokenShare: number | null;
    meanGap: number | null;
    emptyGap: number | null;
    shuffledGap: number | null;
    meanWeight: number | null;
    emptyWeight: number | null;
    shuffledWeight: number | null;
    gradientRatio: number | null;
    cosine: number | null;
  }[];
  /** Mean wall-clock time of a training step without its evaluation. */
  stepMilliseconds: number;
}

/** Runs an arm. */
export async function runArm(task: ArmTask, onProgress: (progress: ArmProgress) => void): Promise<ArmResult> {
  const { arm, seed, steps, weight } = task;
  const training = new World(SETTINGS.trainingWorld);
  const evaluation = new World(SETTINGS.evaluationWorld);
  // A few books of the two worlds have the same name by chance.
  const unseen = evaluation.ofKind("book").filter(({ name }) => training.find(name) === undefined);
  using policy = await Policy.load(task.warmStart, { compute: "f32" });
  const trainer = new HindSearchTrainer({
    policy,
    protocol: worldProtocol(),
    retriever: await MemoryRetriever.create(training.passages()),
    questions: drawQuestions(
      training.ofKind("book"),
      new Random("training", seed),
      steps * SETTINGS.questionsPerStep,
      training,
    ),
    judge: judgeOf(task, training, policy),
    distillation: distillation(arm, weight),
    evaluation: {
      questions: drawQuestions(unseen, new Random("evaluation"), SETTINGS.evaluationQuestions, evaluation),
      retriever: await MemoryRetriever.create(evaluation.passages()),
      corpus: `world ${SETTINGS.evaluationWorld}, BM25`,
      every: SETTINGS.evaluateEvery,
      modes: ["sampled", "greedy"],
    },
    steps,
    seed,
    questionsPerStep: SETTINGS.questionsPerStep,
    groupSize: SETTINGS.groupSize,
    miniBatches: 2,
    kl: { weight: SETTINGS.kl },
    learningRate: {
      kind: "constant",
      learningRate: SETTINGS.learningRate,
      warmupSteps: SETTINGS.warmupUpdates,
    },
    decoder: { maxBatch: 400 },
    // A model this small has memory to spare.
    checkpointActivations: false,
    measureEvery: 10,
    checkpointEvery: 0,
    ...(task.runFolder && { runFolder: task.runFolder, checkpointEvery: steps }),
  });

  const result: ArmResult = { arm, seed, weight, curve: [], signal: [], stepMilliseconds: 0 };
  for await (const { step, metrics, evaluations } of trainer) {
    const milliseconds = metrics.milliseconds.total;
    result.stepMilliseconds += milliseconds / steps;
    const { distillation: term, gradients, rollout } = metrics;
    if (gradients || term?.emptyGap) {
      result.signal.push({
        step,
        failedShare: rollout.failedShare,
        allFailGroups: rollout.groups["all-fail"],
        tokenShare: term?.tokenShare ?? null,
        meanGap: term?.gap.mean ?? null,
        emptyGap: term?.emptyGap?.mean ?? null,
        shuffledGap: term?.shuffledGap?.mean ?? null,
        meanWeight: term?.gap.meanWeight ?? null,
        emptyWeight: term?.emptyGap?.meanWeight ?? null,
        shuffledWeight: term?.shuffledGap?.meanWeight ?? null,
        gradientRatio: gradients?.ratio ?? null,
        cosine: gradients?.cosine ?? null,
      });
    }
    onProgress({ step: step + 1, reward: rollout.reward, milliseconds });
    for (const at of new Set(evaluations.map(({ stepsDone }) => stepsDone))) {
      const score = (mode: string) =>
        evaluations.find((one) => one.stepsDone === at && one.mode === mode)?.report.exactMatch ?? Number.NaN;
      const point = { step: at, sampled: score("sampled"), greedy: score("greedy") };
      result.curve.push(point);
      onProgress({ step: at, reward: rollout.reward, milliseconds, evaluation: point });
    }
  }
  return result;
}

function judgeOf({ arm, judge }: ArmTask, world: World, { tokenizer }: Policy): Judge {
  if (judge) return new ChatJudge({ baseURL: judge.url, model: judge.model, tokenizer });
  return new ScriptedJudge(world, arm === "first-missed" ? "first-missed" : "plan");
}

function drawQuestions(
  starts: readonly WorldEntity[],
  random: Random,
  count: number,
  world: World,
): Question[] {
  const paths = byHops(world.paths(starts));
  return Array.from({ length: count }, () => world.question(drawPath(paths, SETTINGS.hops, random)));
}
