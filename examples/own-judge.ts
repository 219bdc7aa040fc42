/**
 * A judge of one's own: reads a failed trajectory next to the gold answer and says in a sentence which search should have
 * been made. Here it is a rule; a language model behind any SDK is a `FunctionJudge` (ai-sdk-judge.ts), one behind an
 * OpenAI-compatible address a `ChatJudge` (openai-judge.ts).
 *
 *     npx tsx examples/own-judge.ts
 */
import { type Critique, HindSearchTrainer, type Judge, type JudgeInput } from "hindsearch";
import { TINY_PROTOCOL, TINY_QUESTIONS, TINY_RETRIEVER, warmPolicy } from "./own-loop/tiny-world.js";

class RuleJudge implements Judge {
  /** What critiques depend on: they are recorded under it. */
  readonly identity = "search for the name in the question, 1";

  // A judge that cannot tell returns a failure; it does not throw. Many calls may be open at a time.
  async critique({ question, steps }: JudgeInput): Promise<Critique> {
    const [, name] = question.match(/of (\w+)/) ?? [];
    if (name === undefined) return { status: "failed", reason: "the question names nobody" };
    const searched = steps.some(({ query }) => query === name);
    if (searched) return { status: "failed", reason: "it searched well and answered wrongly" };
    return { status: "ok", text: name };
  }
}

using policy = await warmPolicy();
const trainer = new HindSearchTrainer({
  policy,
  judge: new RuleJudge(),
  retriever: TINY_RETRIEVER,
  questions: TINY_QUESTIONS,
  protocol: TINY_PROTOCOL,
  steps: 3,
  questionsPerStep: 8,
  groupSize: 6,
  distillation: { weight: 0.5 },
  decoder: { cacheTokens: 8192 },
});
for await (const { step, metrics, groups } of trainer) {
  const { calls = 0, failures, critiqueShare } = metrics.judge ?? {};
  const example = groups.flat().find(({ critique }) => critique?.status === "ok");
  console.log(
    `step ${step}: ${calls} failed trajectories judged, critiques for ${(100 * (critiqueShare ?? 0)).toFixed(0)} %`,
  );
  console.log(`  without: ${JSON.stringify(failures)}`);
  console.log(`  "${example?.trajectory.question.question}" -> ${JSON.stringify(example?.critique)}`);
}
