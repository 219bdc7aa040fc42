import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { type Critique, readCritique } from "../judge/critique.js";
import { checkJudgeInput, type JudgeInput } from "../judge/input.js";
import type { Judge } from "../judge/judge.js";
import { parseState, RecordedState } from "../judge/judge-state.js";
import { JudgeCounters, type JudgeStats } from "../judge/statistics.js";
import type { ReplayCache } from "./replay-cache.js";

/** Options of {@link recordedJudge}. */
export interface RecordedJudgeOptions {
  /** What critiques depend on beside their input. Default: the judge's own `identity`. */
  identity?: string | undefined;
}

/**
 * A judge with a memory. Critiques are recorded by question, trajectory, gold answers and the judge's identity (model,
 * version of the prompt, parameters).
 *
 * Critiques of every status are recorded, so that a replayed run has the failures that it had. In mode
 * `replay-else-record` a recorded failure of the moment (`failed`, `budget-spent`) is asked for again. In mode `replay` a
 * trajectory without a record is a `failed` critique.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` for a judge without an identity.
 */
export function recordedJudge(
  judge: Judge,
  cache: ReplayCache,
  { identity = judge.identity }: RecordedJudgeOptions = {},
): Judge & Required<Pick<Judge, "stats">> {
  if (identity === undefined || identity === "") {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `${judge.constructor.name} does not say what its critiques depend on; give recordedJudge an identity that names its ` +
        "model, prompt and parameters.",
    );
  }
  return new RecordedJudge(judge, cache, identity);
}

class RecordedJudge implements Judge {
  readonly #counters = new JudgeCounters();
  #hits = 0;

  constructor(
    private readonly judge: Judge,
    private readonly cache: ReplayCache,
    readonly identity: string,
  ) {}

  async critique(input: JudgeInput, { signal }: AbortOptions = {}): Promise<Critique> {
    throwIfAborted(signal);
    checkJudgeInput(input);
    return this.#counters.counted(() => this.#critique(input, signal));
  }

  stats(): JudgeStats {
    const { leaks = {}, usage } = this.judge.stats?.() ?? {};
    return {
      ...this.#counters.stats(),
      cacheHits: this.#hits,
      leaks,
      usage: usage ?? { requests: 0, promptTokens: 0, completionTokens: 0, estimated: 0, money: null },
    };
  }

  state(): unknown {
    const { calls, failures } = this.#counters.stats();
    const state = this.judge.state?.() ?? null;
    return { calls, failures, hits: this.#hits, run: this.cache.run, state };
  }

  restore(state: unknown): void {
    const parsed = parseState(RecordedState, state, "recordedJudge");
    if (parsed.state !== null) this.judge.restore?.(parsed.state);
    this.#counters.restore(parsed);
    this.#hits = parsed.hits;
    this.cache.goOn(parsed.run);
  }

  async #critique(input: JudgeInput, signal: AbortSignal | undefined): Promise<Critique> {
    const ask = async () => [readCritique(await this.judge.critique(input, { signal }))];
    const key = [this.identity, contentOf(input)];
    const [found] = await this.cache.answers("judge", [key], ask, isFinal);
    throwIfAborted(signal);
    if (found === undefined) {
      return { status: "failed", reason: "there is no record of this trajectory to replay" };
    }
    if (found.replayed) this.#hits++;
    return readCritique(found.answer);
  }
}

function isFinal({ status }: Critique): boolean {
  return status !== "failed" && status !== "budget-spent";
}

/** What a judge may read. Scores and ids of passages are no part of any prompt, and differ between engines. */
function contentOf({ question, goldAnswers, steps, answer }: JudgeInput): unknown {
  const shown = steps.map(({ query, passages, reasoning }) => ({
    query,
    reasoning,
    passages: passages.map(({ title, text }) => ({ title, text })),
  }));
  return { question, goldAnswers, steps: shown, answer };
}
