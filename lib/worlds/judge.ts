import type { Critique } from "../judge/critique.js";
import type { JudgeInput } from "../judge/input.js";
import type { Judge } from "../judge/judge.js";
import type { Entity, World } from "./world.js";

/**
 * How much the scripted judge writes.
 *
 * - `plan`: every search of the chain, so that the critique also endorses what was right.
 * - `first-missed`: only the first search of the chain that the trajectory did not find.
 */
export type CritiqueScope = "plan" | "first-missed";

/**
 * The judge of a generated world: it knows the corpus, reads the trajectory's question, searches and gold answer,
 * and names the searches that lead there. It never names the answer itself.
 *
 * Without the gold answer it cannot tell which entities lie on the way, so it can only repeat the search that the
 * question itself names.
 */
export class ScriptedJudge implements Judge {
  constructor(
    private readonly world: World,
    private readonly scope: CritiqueScope = "plan",
  ) {}

  async critique(input: JudgeInput): Promise<Critique> {
    const path = this.world.parse(input.question);
    if (path === undefined) return { status: "failed", reason: "the question is not one of this world" };
    const searched = path.chain.slice(0, -1);
    if (input.goldAnswers === null) return plan(searched.slice(0, 1));
    if (!input.goldAnswers.includes((path.chain.at(-1) as Entity).name)) {
      return { status: "failed", reason: "no path of the question ends at the gold answer" };
    }
    if (this.scope === "plan") return plan(searched);
    const found = new Set(input.steps.flatMap((step) => step.passages.map((passage) => passage.title)));
    const missed = searched.find((entity) => !found.has(entity.name));
    return plan(missed === undefined ? searched : [missed]);
  }
}

function plan(entities: readonly Entity[]): Critique {
  return { status: "ok", text: planText(entities) };
}

/** The critique that names these searches: `search A then B then C`. */
export function planText(entities: readonly Entity[]): string {
  return `search ${entities.map((entity) => entity.name).join(" then ")}`;
}
