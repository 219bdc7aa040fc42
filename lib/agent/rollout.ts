import { type AbortOptions, onAbort, throwIfAborted } from "../abort.js";
import type { Question } from "../data/question.js";
import { hashKey } from "../data/random.js";
import { HindsearchError } from "../errors.js";
import { type SegmentOptions, toUint64 } from "../policy/decoder.js";
import type { Retriever } from "../retrieval/retriever.js";
import { emitWarning } from "../warning.js";
import type { BoundProtocol } from "./bound-protocol.js";
import type { OutageProgress } from "./outage.js";
import { Pacer } from "./pacer.js";
import { type SearchFailureOptions, type SearchSettings, searchSettings } from "./search-options.js";
import { SearchQueue, type SearchQueueStatistics } from "./search-queue.js";
import { Segments, type SequenceDecoder } from "./segments.js";
import { FULL_SAMPLING, type Sampling, type Trajectory } from "./trajectory.js";
import { TrajectoryRecorder } from "./trajectory-recorder.js";

/** Progress of a rollout. */
export interface RolloutProgress {
  /** Trajectories that ended. */
  done: number;
  /** Trajectories in all. */
  total: number;
  /** Searches asked so far. */
  searches: number;
  /** The outage of the search service that is being waited for; absent while there is none. */
  outage?: OutageProgress;
}

/** Options of {@link rollout}. */
export interface RolloutOptions extends SearchFailureOptions, AbortOptions {
  /** Decodes. Several rollouts may use it one after the other, not at once. */
  decoder: SequenceDecoder;
  /** Searches. */
  retriever: Retriever;
  /** How they talk. */
  protocol: BoundProtocol;
  /** One group each. */
  questions: readonly Question[];
  /** Trajectories per question. Default 1. */
  groupSize?: number;
  /** Default: the full softmax at temperature 1. */
  sampling?: Readonly<Sampling>;
  /** Of the random numbers, 0 to 2^64 - 1. Default 0. */
  seed?: number | bigint;
  /** Training step; part of the random numbers and of the ids. Default 0. */
  step?: number;
  /** Tells apart rollouts of one seed and step, e.g. training from evaluation. Default `rollout`. */
  purpose?: string;
  /** Called when a trajectory ends, and when an outage begins, is found to go on, and ends. */
  onProgress?: (progress: RolloutProgress) => void;
  /** Hears of every outage once, when it begins. Default: `process.emitWarning`. */
  onWarning?: ((warning: string) => void) | undefined;
  /**
   * Called with every trajectory as soon as it has ended, in the order in which they end, which is no fixed one; others
   * are still being decoded. An error that it throws ends the rollout and is what that rejects with.
   */
  onTrajectory?: (trajectory: Trajectory) => void;
}

/** What {@link rollout} returns. */
export interface RolloutResult {
  /** Per question its G trajectories, in the order of their samples. */
  groups: Trajectory[][];
  /** Of the searches. */
  searches: SearchQueueStatistics;
  /** Wall-clock time. */
  milliseconds: number;
}

/**
 * Samples G trajectories per question with the search engine in the loop.
 *
 * All of them decode together. The prompt of a group is run once and shared; a trajectory that stops at a search
 * leaves the batch until its passages are there, while the others go on. What is sampled does not depend on any of
 * that: the token at position p of a trajectory is a function of the weights, the tokens before it, and (seed,
 * purpose, step, group, sample, p).
 *
 * @throws {@link HindsearchError} `RETRIEVAL_FAILED` when too many searches failed, `NON_FINITE` when the model
 * produced no numbers, `ABORTED`, `INVALID_ARGUMENT`. All sequences are released however it ends.
 */
export async function rollout(options: RolloutOptions): Promise<RolloutResult> {
  throwIfAborted(options.signal);
  const started = performance.now();
  const run = new Rollout(options);
  try {
    const groups = await run.trajectories();
    const milliseconds = performance.now() - started;
    return { groups, searches: { ...run.searches.statistics }, milliseconds };
  } finally {
    run.end();
  }
}

class Rollout {
  readonly searches: SearchQueue;
  readonly #options: RolloutOptions;
  readonly #search: SearchSettings;
  readonly #segments: Segments;
  readonly #stop = new AbortController();
  readonly #off: () => void;
  readonly #total: number;
  #done = 0;
  #failed = 0;

  constructor(options: RolloutOptions) {
    const { retriever, protocol, questions, groupSize = 1, signal } = options;
    if (!Number.isInteger(groupSize) || groupSize < 1) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `groupSize is ${groupSize}, expected a positive integer.`,
      );
    }
    this.#search = searchSettings(options);
    this.#options = options;
    this.#total = questions.length * groupSize;
    this.#off = onAbort(signal, () => this.#stop.abort(signal?.reason));
    this.#segments = new Segments(options.decoder, this.#stop.signal);
    this.searches = new SearchQueue(retriever, {
      ...this.#search,
      topK: protocol.searchDepth,
      signal: this.#stop.signal,
      onOutage: (event) => {
        if (event === "begins") this.#warnOfOutage();
        this.#report();
      },
    });
  }

  async trajectories(): Promise<Trajectory[][]> {
    const groups: Promise<Trajectory>[][] = [];
    try {
      const pacer = new Pacer();
      for (const [group, question] of this.#options.questions.entries()) {
        const trajectories = this.#group(question, group);
        // Errors are for the call that awaits all of them; until then they must not count as unhandled.
        for (const trajectory of trajectories) trajectory.catch(() => undefined);
        groups.push(trajectories);
        await pacer.pause();
      }
      return await Promise.all(groups.map((group) => Promise.all(group)));
    } catch (error) {
      // The first error speaks for all; the others are aborted and must be over before pages are given back.
      this.#stop.abort(error);
      await Promise.allSettled(groups.flat());
      throwIfAborted(this.#options.signal);
      throw error;
    }
  }

  end(): void {
    this.#off();
    this.#segments.releaseAll();
  }

  #group(question: Question, group: number): Promise<Trajectory>[] {
    const { protocol, groupSize = 1, sampling = FULL_SAMPLING, seed = 0, step = 0 } = this.#options;
    const { purpose = "rollout" } = this.#options;
    const promptTokens = protocol.promptTokens(question.question);
    const recorders = Array.from({ length: groupSize }, (_, sample) => {
      const key = { seed: toUint64(seed, "seed"), stream: hashKey(purpose, step, group, sample) };
      return new TrajectoryRecorder({ step, group, sample, question, promptTokens, sampling, key, protocol });
    });
    const [any] = recorders;
    if (any === undefined || any.room === 0) {
      return recorders.map(async (recorder) =>
        this.#finished(recorder.truncate("the prompt fills the context")),
      );
    }
    const options = this.#segmentOptions(any);
    const streams = recorders.map(({ key }) => key);
    const started = this.#segments.start(
      promptTokens,
      streams,
      options,
      protocol.reserve(promptTokens.length),
    );
    return started.map(({ sequence, segment }, sample) =>
      this.#trajectory(recorders[sample] as TrajectoryRecorder, sequence, segment),
    );
  }

  async #trajectory(
    recorder: TrajectoryRecorder,
    sequence: number,
    first: ReturnType<Segments["extend"]>,
  ): Promise<Trajectory> {
    try {
      for (let segment = first; ; ) {
        const turn = recorder.turn(await segment);
        if (turn.kind === "over") return this.#finished(turn.trajectory);
        let inserted = turn.kind === "invalid" ? turn.notice : undefined;
        if (turn.kind === "search") {
          const outcome = await this.searches.search(turn.query);
          if (!outcome.ok) return this.#lost(recorder.searchFailed(outcome.error), outcome.error);
          inserted = recorder.observe(outcome.passages);
        }
        if (inserted === undefined || recorder.room === 0) {
          return this.#finished(recorder.truncate("the context is full"));
        }
        segment = this.#segments.extend(sequence, inserted, this.#segmentOptions(recorder));
      }
    } finally {
      this.#segments.release(sequence);
    }
  }

  #segmentOptions(recorder: TrajectoryRecorder): SegmentOptions {
    const { protocol, sampling = FULL_SAMPLING } = this.#options;
    const maxNewTokens = Math.min(protocol.protocol.maxTurnTokens, recorder.room);
    return { ...sampling, stop: protocol.stops, endTokens: protocol.endTokens, maxNewTokens };
  }

  #finished(trajectory: Trajectory): Trajectory {
    this.#done++;
    this.#report();
    this.#options.onTrajectory?.(trajectory);
    return trajectory;
  }

  #report(): void {
    const { outage, statistics } = this.searches;
    const progress = { done: this.#done, total: this.#total, searches: statistics.searches };
    this.#options.onProgress?.(outage === undefined ? progress : { ...progress, outage });
  }

  #warnOfOutage(): void {
    const { onWarning = emitWarning } = this.#options;
    const { maxOutageMs } = this.#search;
    onWarning(
      `The search service does not answer. Trajectories that search wait for it, up to ${maxOutageMs / 1000} s in all ` +
        `(maxOutageMs); the others go on. The reason was: ${this.searches.outage?.reason}`,
    );
  }

  #lost(trajectory: Trajectory, cause: Error): Trajectory {
    const { maxFailedShare } = this.#search;
    this.#failed++;
    if (this.#failed > maxFailedShare * this.#total) {
      throw new HindsearchError(
        "RETRIEVAL_FAILED",
        `${this.#failed} of ${this.#total} trajectories lost a search, more than the share of ${maxFailedShare} that ` +
          `maxFailedShare allows. The last error was: ${cause.message} Check the search service; nothing was learned ` +
          "from this rollout.",
        { cause },
      );
    }
    return this.#finished(trajectory);
  }
}
