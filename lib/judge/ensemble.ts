import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { foreignReason } from "../network/secrets.js";
import { type Critique, readCritique } from "./critique.js";
import { checkJudgeInput, type JudgeInput } from "./input.js";
import type { Judge } from "./judge.js";
import { EnsembleState, parseState } from "./judge-state.js";
import { addLeaks } from "./leak-guard.js";
import { JudgeCounters, type JudgeStats } from "./statistics.js";
import { addUsage } from "./usage.js";

/** What the members of a {@link JudgeEnsemble} did, in their order. */
export interface EnsembleStats {
  /** Times that the member was asked. */
  asked: number;
  /** Critiques that it gave. */
  ok: number;
}

/**
 * Judges in order of preference: each is asked only where those before it gave no critique, for whatever reason. If none
 * does, the failure is the first judge's, with the others' reasons behind it.
 */
export class JudgeEnsemble implements Judge {
  readonly #judges: readonly Judge[];
  readonly #counts: EnsembleStats[];
  readonly #counters = new JudgeCounters();

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT` without judges. */
  constructor(judges: readonly Judge[]) {
    if (judges.length === 0) {
      throw new HindsearchError("INVALID_ARGUMENT", "An ensemble needs at least one judge.");
    }
    this.#judges = [...judges];
    this.#counts = judges.map(() => ({ asked: 0, ok: 0 }));
  }

  /** See {@link Judge.identity}; only if every member has one. */
  get identity(): string | undefined {
    const members = this.#judges.map(({ identity }) => identity);
    return members.includes(undefined) ? undefined : JSON.stringify({ judge: "ensemble", members });
  }

  /** See {@link Judge.critique}. */
  async critique(input: JudgeInput, { signal }: AbortOptions = {}): Promise<Critique> {
    throwIfAborted(signal);
    checkJudgeInput(input);
    return this.#counters.counted(() => this.#firstCritique(input, signal));
  }

  /** Its own calls and latencies; what was used up and leaked is the sum over the members that count it. */
  stats(): JudgeStats {
    const members = this.#judges.flatMap((judge) => judge.stats?.() ?? []);
    return {
      ...this.#counters.stats(),
      cacheHits: members.reduce((sum, { cacheHits }) => sum + cacheHits, 0),
      leaks: addLeaks(members.map(({ leaks }) => leaks)),
      usage: addUsage(members.map(({ usage }) => usage)),
    };
  }

  /** How often each member was asked, and gave a critique; the rest is in the members' own figures. */
  memberStats(): EnsembleStats[] {
    return this.#counts.map((counts) => ({ ...counts }));
  }

  /** See {@link Judge.state}. */
  state(): unknown {
    const { calls, failures } = this.#counters.stats();
    const members = this.#judges.map((judge, i) => ({
      ...(this.#counts[i] as EnsembleStats),
      state: judge.state?.() ?? null,
    }));
    return { calls, failures, members };
  }

  /** See {@link Judge.restore}. */
  restore(state: unknown): void {
    const parsed = parseState(EnsembleState, state, "JudgeEnsemble");
    if (parsed.members.length !== this.#judges.length) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `The state is of an ensemble of ${parsed.members.length} judges; this one has ${this.#judges.length}.`,
      );
    }
    for (const [i, { asked, ok, state: inner }] of parsed.members.entries()) {
      if (inner !== null) this.#judges[i]?.restore?.(inner);
      this.#counts[i] = { asked, ok };
    }
    this.#counters.restore(parsed);
  }

  async #firstCritique(input: JudgeInput, signal: AbortSignal | undefined): Promise<Critique> {
    const failures: Exclude<Critique, { status: "ok" }>[] = [];
    for (const [i, judge] of this.#judges.entries()) {
      const critique = await ask(judge, input, signal);
      const counts = this.#counts[i] as EnsembleStats;
      counts.asked++;
      if (critique.status === "ok") {
        counts.ok++;
        return critique;
      }
      failures.push(critique);
    }
    const [first] = failures as [(typeof failures)[number]];
    const reasons = failures.map(({ status, reason }, i) => `judge ${i + 1}: ${status}, ${reason}`);
    return failures.length === 1 ? first : { ...first, reason: reasons.join("; ") };
  }
}

/** A judge that throws has failed like one that says so; only an abort ends the call. */
async function ask(judge: Judge, input: JudgeInput, signal: AbortSignal | undefined): Promise<Critique> {
  try {
    return readCritique(await judge.critique(input, { signal }));
  } catch (error) {
    throwIfAborted(signal);
    return { status: "failed", reason: foreignReason(error) };
  }
}
