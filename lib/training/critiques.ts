import { type AbortOptions, abortable, onAbort, throwIfAborted, withDeadline } from "../abort.js";
import { startPaced } from "../agent/pacer.js";
import type { Span, Trajectory } from "../agent/trajectory.js";
import { type Critique, readCritique } from "../judge/critique.js";
import type { JudgeInput } from "../judge/input.js";
import type { Judge } from "../judge/judge.js";
import { foreignReason } from "../network/secrets.js";
import type { TrainingSample } from "./samples.js";

/** Which trajectories the distillation term may act on; all of them must have searched. */
export type TrajectoryScope =
  /** Failed ones: HindSearch's own. */
  | "failed"
  /** Failed ones of groups in which all failed, where GRPO is silent. */
  | "all-fail-groups"
  /** Failed ones of groups in which others did better. */
  | "mixed-groups"
  /** Every one with a reward. */
  | "all";

/** Options of {@link critiqueSamples}. */
export interface CritiqueOptions extends AbortOptions {
  /** Which trajectories are judged. */
  scope: TrajectoryScope;
  /** Whether the judge is told the gold answers. */
  seesGold: boolean;
  /** Milliseconds to wait for critiques; what is missing then counts as failed. */
  deadline: number;
  /** Text of tokens, for the reasoning that a judge may read. */
  decode: (tokens: Int32Array) => string;
}

/** What the judge did in a step. */
export interface CritiqueStatistics {
  /** Trajectories that were judged. */
  calls: number;
  /** Critiques that came. */
  ok: number;
  /** Those that did not, by their status. */
  failures: Partial<Record<Exclude<Critique["status"], "ok">, number>>;
  /** Milliseconds of each call, in the order of the samples. */
  latencies: number[];
  /** Wall-clock time from the first call to the last critique. */
  milliseconds: number;
}

/** Whether the distillation term may act on a sample, critique permitting. */
export function inScope(
  { trajectory, failed, reward, group }: TrainingSample,
  scope: TrajectoryScope,
): boolean {
  if (reward === null || trajectory.searches.length === 0) return false;
  switch (scope) {
    case "all":
      return true;
    case "failed":
      return failed;
    case "all-fail-groups":
      return failed && group === "all-fail";
    case "mixed-groups":
      return failed && group === "mixed";
  }
}

/**
 * Asks the judge about the samples in scope, all at once (a judge limits its own concurrency), and writes what it says
 * to them. A judge that throws or does not answer in time is a `failed` critique: it leaves its trajectory without a
 * distillation term and does not end the step.
 *
 * @throws {@link HindsearchError} `ABORTED` only.
 */
export async function critiqueSamples(
  samples: readonly TrainingSample[],
  judge: Judge,
  options: CritiqueOptions,
): Promise<CritiqueStatistics> {
  using critic = new Critic(judge, options);
  return await critic.collect(samples);
}

/** What a judge said about a trajectory, and how long that took. */
interface Reply {
  critique: Critique;
  latency: number;
}

/** Asks a judge about trajectories one by one, as they end, and collects its critiques when all of them have. */
export class Critic implements Disposable {
  readonly #judge: Judge;
  readonly #options: CritiqueOptions;
  readonly #stop = new AbortController();
  readonly #replies = new Map<Trajectory, Promise<Reply>>();
  #since: number | undefined;
  #expired = false;

  constructor(judge: Judge, options: CritiqueOptions) {
    this.#judge = judge;
    this.#options = options;
  }

  /** Whether the scope asks how the rewards of a whole group relate, and not for one reward alone. */
  get dependsOnGroup(): boolean {
    return this.#options.scope === "all-fail-groups" || this.#options.scope === "mixed-groups";
  }

  /** Asks about those samples that are in scope and were not asked about before. */
  ask(samples: readonly TrainingSample[]): void {
    for (const sample of samples) if (inScope(sample, this.#options.scope)) void this.#reply(sample);
  }

  /**
   * Asks about the samples in scope that were not asked about yet, waits for all critiques, at most the deadline, and
   * writes them to the samples.
   *
   * @throws {@link HindsearchError} `ABORTED` only.
   */
  async collect(
    samples: readonly TrainingSample[],
    onProgress?: (progress: { done: number; total: number }) => void,
  ): Promise<CritiqueStatistics> {
    const { scope, deadline, signal } = this.#options;
    const judged = samples.filter((sample) => inScope(sample, scope));
    let done = 0;
    const replied = async (sample: TrainingSample) => {
      const reply = await this.#reply(sample);
      onProgress?.({ done: ++done, total: judged.length });
      return reply;
    };
    const replies = await withDeadline(deadline, signal, (inner, timedOut) => {
      onAbort(inner, () => {
        this.#expired = timedOut();
        this.#stop.abort(inner.reason);
      });
      return startPaced(judged, replied);
    });
    const failures: CritiqueStatistics["failures"] = {};
    for (const [i, { critique }] of replies.entries()) {
      (judged[i] as TrainingSample).critique = critique;
      if (critique.status !== "ok") failures[critique.status] = (failures[critique.status] ?? 0) + 1;
    }
    return {
      calls: judged.length,
      ok: replies.filter(({ critique }) => critique.status === "ok").length,
      failures,
      latencies: replies.map(({ latency }) => latency),
      milliseconds: this.#since === undefined ? 0 : performance.now() - this.#since,
    };
  }

  /** Ends the calls that are under way; nothing is asked any more. */
  [Symbol.dispose](): void {
    this.#stop.abort(new Error("the critiques are not needed any more"));
  }

  #reply({ trajectory }: TrainingSample): Promise<Reply> {
    let reply = this.#replies.get(trajectory);
    if (reply === undefined) {
      reply = this.#ask(trajectory);
      // Its error is for whoever collects; until then it must not count as unhandled.
      reply.catch(() => undefined);
      this.#replies.set(trajectory, reply);
    }
    return reply;
  }

  async #ask(trajectory: Trajectory): Promise<Reply> {
    const { signal } = this.#stop;
    const asked = performance.now();
    this.#since ??= asked;
    let critique: Critique;
    try {
      throwIfAborted(signal);
      const input = judgeInput(trajectory, this.#options);
      critique = readCritique(await abortable(this.#judge.critique(input, { signal }), signal));
    } catch (error) {
      if (!this.#expired) throwIfAborted(signal);
      const { deadline } = this.#options;
      const reason = this.#expired ? `no critique within ${deadline} ms` : foreignReason(String(error));
      critique = { status: "failed", reason };
    }
    return { critique, latency: performance.now() - asked };
  }
}

/** A trajectory as a judge reads it. */
export function judgeInput(
  trajectory: Trajectory,
  { seesGold, decode }: Pick<CritiqueOptions, "seesGold" | "decode">,
): JudgeInput {
  const { question, searches, answer, tokens, spans } = trajectory;
  return {
    question: question.question,
    goldAnswers: seesGold ? question.goldAnswers : null,
    answer,
    steps: searches.map(({ query, passages, start }) => {
      const thought = thoughtBefore(spans, start);
      const reasoning = thought && decode(tokens.subarray(thought.start, thought.end)).trim();
      return { query, passages, ...(reasoning ? { reasoning } : {}) };
    }),
  };
}

/** What the policy wrote just before a search: the last `think` span with nothing but the tag between. */
function thoughtBefore(spans: readonly Span[], start: number): Span | undefined {
  const before = spans.filter(({ end }) => end <= start).slice(-2);
  return before.at(-1)?.kind === "tag" && before[0]?.kind === "think" ? before[0] : undefined;
}
