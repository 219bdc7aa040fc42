import type { AbortOptions } from "../abort.js";
import type { BoundProtocol } from "../agent/bound-protocol.js";
import { type RolloutOptions, rollout } from "../agent/rollout.js";
import type { Trajectory } from "../agent/trajectory.js";
import type { QuestionSampler } from "../data/sampler.js";
import type { Judge } from "../judge/judge.js";
import type { Decoder } from "../policy/decoder.js";
import type { DistillTerm } from "../policy/objective.js";
import type { Policy } from "../policy/policy.js";
import type { Retriever } from "../retrieval/retriever.js";
import { type Reward, rewardInput } from "../reward/reward.js";
import { Assessment } from "./assessment.js";
import { Critic } from "./critiques.js";
import { Teacher } from "./distillation.js";
import type { TrainingPhase, TrainingProgress } from "./progress.js";
import { type StepMetrics, Stopwatch, type TrainingStepResult } from "./record.js";
import { distillTermAt, isMeasured, type TrainerSettings } from "./settings.js";
import { judgeHealth, referenceHealth, rolloutHealth } from "./signal.js";
import { checkLogProbs } from "./startup-check.js";
import { scoreReference, type TeacherOptions } from "./teacher.js";
import type { TrainingRun } from "./training-run.js";
import type { RecordDetails } from "./trajectory-record.js";
import { measureGradients, type UpdateOptions, updatePolicy } from "./update.js";

/** What a training step works with. */
export interface StepContext extends AbortOptions {
  /** Is trained. */
  policy: Policy;
  /** The frozen initial policy: teacher and reference; `undefined` where nothing needs it. */
  frozen: Policy | undefined;
  /** Decodes for the policy. */
  decoder: Decoder;
  /** Searches. */
  retriever: Retriever;
  /** Critiques; `undefined` for plain GRPO. */
  judge: Judge | undefined;
  /** How policy and retriever talk. */
  protocol: BoundProtocol;
  /** Hands out training questions. */
  questions: QuestionSampler;
  /** Scores. */
  reward: Reward;
  /** All numbers and switches. */
  settings: TrainerSettings;
  /** Where it is logged. */
  run: TrainingRun;
  /** Trajectories of this step to check against the trainer's log-probs. */
  checked: number;
  /** Hears how the step goes on. */
  onProgress?: (progress: Omit<TrainingProgress, "step">) => void;
  /** Hears of outages. */
  onWarning: RolloutOptions["onWarning"];
}

/** One training step in seven parts, from questions to the record. */
export async function trainingStep(context: StepContext, step: number): Promise<TrainingStepResult> {
  const { policy, frozen, settings } = context;
  const distill = distillTermAt(settings, step);
  const measured = isMeasured(settings, step);
  using critic = distill || measured ? criticOf(context) : undefined;
  const assessment = assessmentOf(context, critic);
  const watch = new Stopwatch();

  // 1. Questions.
  const questions = context.questions.next(settings.questionsPerStep);

  // 2. Rollout: ids, log-probs and spans are recorded as they are sampled. Reward and critique of a trajectory
  // begin when it ends.
  const rolled = await rollout({ ...rolloutOptions(context, assessment), questions, step });
  await checkStart(context, rolled.groups.flat());
  const rolloutTime = watch.lap();

  // 3. Rewards, and advantages within each group.
  const groups = await assessment.score(rolled.groups);
  const samples = groups.flat();

  // 4. In parallel: critiques of failed trajectories, and the frozen reference on the plain contexts.
  const [critiques] = await Promise.all([
    critic?.collect(samples, listener(context, "critiques")),
    frozen && (settings.kl || measured)
      ? scoreReference(frozen, samples, teacherOptions(context))
      : undefined,
  ]);
  const judgeAndReference = watch.lap();

  // 5. The frozen policy on the hinted contexts: the teacher's log-probs of the student's own search tokens.
  const teacher = critiques && teacherOf(context);
  const hinted = samples.filter(({ critique }) => critique?.status === "ok").length;
  const hearTeacher = hinted > 0 ? listener(context, "teacher") : undefined;
  hearTeacher?.({ done: 0, total: hinted });
  const overBudget = (await teacher?.score(samples)) ?? 0;
  const distillation = await teacher?.measure(samples, measured);
  hearTeacher?.({ done: hinted, total: hinted });
  const teacherTime = watch.lap();

  // 6. One optimizer step per mini-batch.
  const update = updateOptions(context, distill);
  const gradients = measured ? await measureGradients(policy, groups, update) : undefined;
  const updates = await updatePolicy(policy, groups, update);
  const milliseconds = {
    rollout: rolloutTime,
    judgeAndReference,
    teacher: teacherTime,
    update: watch.lap(),
    total: watch.total,
  };

  // 7. The record.
  const hasReference = samples.some(({ referenceLogProbs }) => referenceLogProbs !== undefined);
  const metrics: StepMetrics = {
    step,
    rollout: await rolloutHealth(samples, rolled),
    ...(critiques && { judge: await judgeHealth(samples, critiques, overBudget, context.judge) }),
    ...(distillation && { distillation }),
    ...(hasReference && { reference: await referenceHealth(samples, update.tokenScope) }),
    ...(gradients && { gradients }),
    distillationWeight: distill?.weight ?? 0,
    rolloutGap: updates[0]?.skipped === "empty" ? null : (updates[0]?.logRatioMaxAbs ?? null),
    updates,
    milliseconds,
  };
  await context.run.recordStep(metrics, groups, recordDetails(context));
  return { step, metrics, groups, evaluations: [] };
}

function rolloutOptions(
  context: StepContext,
  assessment: Assessment,
): Omit<RolloutOptions, "questions" | "step"> {
  const { decoder, retriever, protocol, signal, checked, onWarning } = context;
  const onProgress = listener(context, "rollout");
  const { groupSize, sampling, seed, search } = context.settings;
  return {
    ...search,
    decoder,
    retriever,
    protocol,
    groupSize,
    sampling,
    seed,
    signal,
    onWarning,
    ...(onProgress && { onProgress }),
    // What is still to be checked is not shown to rewards and judge: they may cost money.
    ...(checked === 0 && { onTrajectory: (trajectory) => assessment.start(trajectory) }),
  };
}

async function checkStart(context: StepContext, trajectories: Trajectory[]): Promise<void> {
  const { policy, settings, checked } = context;
  if (checked === 0) return;
  const { tolerance } = settings.startupCheck;
  await checkLogProbs(policy, trajectories.slice(0, checked), tolerance, teacherOptions(context));
}

/** Tells of a phase; `undefined` if nobody listens. */
function listener({ onProgress }: StepContext, phase: TrainingPhase) {
  return (
    onProgress && ((progress: Omit<TrainingProgress, "step" | "phase">) => onProgress({ phase, ...progress }))
  );
}

function criticOf({ judge, protocol, settings, signal }: StepContext): Critic | undefined {
  if (judge === undefined || settings.distillation === null) return undefined;
  const { trajectoryScope, judgeSeesGold, judgeDeadline } = settings.distillation;
  return new Critic(judge, {
    scope: trajectoryScope,
    seesGold: judgeSeesGold,
    deadline: judgeDeadline,
    decode: (tokens) => protocol.decode(tokens),
    signal,
  });
}

function assessmentOf(
  { reward, policy, settings, signal }: StepContext,
  critic: Critic | undefined,
): Assessment {
  return new Assessment({
    ...settings,
    score: (trajectory) =>
      reward.score(rewardInput(trajectory, policy.tokenizer), trajectory.question.goldAnswers),
    critic,
    signal,
  });
}

function teacherOf(context: StepContext): Teacher | undefined {
  const { frozen, protocol, settings } = context;
  if (frozen === undefined || settings.distillation === null) return undefined;
  return new Teacher(frozen, protocol, settings.distillation, teacherOptions(context));
}

function teacherOptions({ settings, signal }: StepContext): TeacherOptions {
  const { sampling, microBatchTokens } = settings;
  return { temperature: sampling.temperature, microBatchTokens: microBatchTokens ?? undefined, signal };
}

function recordDetails({ policy, settings }: StepContext): RecordDetails {
  const { tokenScope = "search", term } = settings.distillation ?? {};
  return { tokenizer: policy.tokenizer, scope: tokenScope, clamp: term?.clamp ?? [0, 1] };
}

function updateOptions(context: StepContext, distill: DistillTerm | undefined): UpdateOptions {
  const { policyTerm, kl, distillation, miniBatches, learningRate, optimizer } = context.settings;
  const onProgress = listener(context, "update");
  return {
    ...(onProgress && { onProgress }),
    ...teacherOptions(context),
    policyTerm,
    kl: kl ?? undefined,
    distill,
    tokenScope: distillation?.tokenScope ?? "search",
    miniBatches,
    learningRate,
    optimizer,
    microBatchTokens: context.settings.microBatchTokens ?? undefined,
    checkpointActivations: context.settings.checkpointActivations,
  };
}
