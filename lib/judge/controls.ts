import { type AbortOptions, throwIfAborted } from "../abort.js";
import type { Critique, Judge, JudgeInput } from "./judge.js";

/** The same judge, but it never sees a gold answer: the ablation that costs HindSearch most of its gain. */
export function withoutGold(judge: Judge): Judge {
  return { critique: (input, options) => judge.critique({ ...input, goldAnswers: null }, options) };
}

/**
 * A control that says the same about every attempt: it shows what advice does that fits all questions.
 */
export class GenericJudge implements Judge {
  /** @param text - The critique. */
  constructor(readonly text: string) {}

  /** See {@link Judge.critique}. */
  async critique(_input: JudgeInput, { signal }: AbortOptions = {}): Promise<Critique> {
    throwIfAborted(signal);
    return { status: "ok", text: this.text };
  }
}

/**
 * A control without content: it shows what the frozen teacher does alone, since whatever it pulls towards then comes
 * from its habits and not from the hint.
 */
export class EmptyJudge extends GenericJudge {
  constructor() {
    super("");
  }
}

/**
 * A control in which every hint belongs to another attempt: the texts of the `ok` critiques move on by half their
 * number, failures stay where they are. By half and not by one, because neighbours are attempts at the same question.
 * A single critique has nobody to change places with and becomes a failure.
 *
 * @param critiques - Of one step, in the order of their groups. If one group has more than half of them, some hints stay
 * within it.
 */
export function shuffled(critiques: readonly Critique[]): Critique[] {
  const good = critiques.filter((critique) => critique.status === "ok");
  const half = good.length >>> 1;
  let next = 0;
  return critiques.map((critique) => {
    if (critique.status !== "ok") return critique;
    if (half === 0) return { status: "failed", reason: "there is no other critique to exchange it for" };
    return good[(next++ + half) % good.length] as Critique;
  });
}
