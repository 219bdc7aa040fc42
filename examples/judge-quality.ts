/**
 * Which judge to pick, in a minute and without training: what the critiques of several judges do to the frozen teacher in
 * the generated world.
 *
 *     npx tsx examples/judge-quality.ts
 *     npx tsx examples/judge-quality.ts --questions 100 --judge-url http://127.0.0.1:8000/v1 --judge-model my-judge
 *
 * Makes the warm start of the demo first if there is none.
 */
import { resolve } from "node:path";
import {
  BoundProtocol,
  byHops,
  ChatJudge,
  type Critique,
  drawPath,
  evaluateJudge,
  exactMatch,
  type Judge,
  type JudgeInput,
  type JudgeQuality,
  MemoryRetriever,
  type PairedDifference,
  Policy,
  Random,
  rollout,
  ScriptedJudge,
  World,
  type WorldEntity,
  worldProtocol,
} from "hindsearch";
import { address, readOptions, runCommand, UsageError, wholeNumber } from "./world/command-line.js";
import { SETTINGS } from "./world/settings.js";
import { warmStart } from "./world/warm-start.js";

const ok = (text: string): Critique => ({ status: "ok", text });
const judgeThat = (critique: (input: JudgeInput) => Critique | Promise<Critique>): Judge => ({
  critique: async (input) => critique(input),
});

/** What is wrong with each of them stands in its name. */
function worseJudges(world: World, scripted: Judge): Record<string, Judge> {
  const chainOf = ({ question }: JudgeInput) => world.parse(question)?.chain ?? [];
  const plan = (entities: readonly WorldEntity[]) =>
    ok(`search ${entities.map(({ name }) => name).join(" then ")}`);
  let calls = 0;
  return {
    "first search missed": new ScriptedJudge(world, "first-missed"),
    "fails half of the time": judgeThat((input) =>
      ++calls % 2 === 0 ? { status: "unparsable", reason: "no marks" } : scripted.critique(input),
    ),
    "in the wrong order": judgeThat((input) => plan(chainOf(input).slice(0, -1).reverse())),
    "repeats what was done": judgeThat(({ steps }) =>
      ok(`search ${steps.map(({ query }) => query).join(" then ")}`),
    ),
    "states the answer": judgeThat(({ goldAnswers }) => ok(`search ${goldAnswers?.[0]}`)),
    "fits every question": judgeThat(() => ok("search then search")),
  };
}

await runCommand(async (signal) => {
  const values = readOptions({
    questions: "60",
    runs: "runs",
    seed: "1",
    "judge-url": undefined,
    "judge-model": undefined,
  });
  const { "judge-url": url, "judge-model": model } = values;
  if ((url === undefined) !== (model === undefined))
    throw new UsageError("--judge-url and --judge-model go together.");
  const seed = wholeNumber("seed", values.seed, 0);
  const count = wholeNumber("questions", values.questions, 2);
  const folder = await warmStart(resolve(values.runs), signal, (step, loss) => {
    if (step % 200 === 0) console.log(`warm start ${step}, loss ${loss.toFixed(3)}`);
  });

  // Failed attempts of the model that would train.
  const world = new World(SETTINGS.trainingWorld);
  using policy = await Policy.load(folder, { compute: "f32" });
  using teacher = await policy.snapshot();
  using decoder = await policy.createDecoder({ maxBatch: 400 });
  const paths = byHops(world.paths(world.ofKind("book")));
  const random = new Random("judge quality", seed);
  const protocol = worldProtocol();
  const { groups } = await rollout({
    decoder,
    retriever: await MemoryRetriever.create(world.passages()),
    protocol: new BoundProtocol(protocol, policy),
    questions: Array.from({ length: count }, () => world.question(drawPath(paths, SETTINGS.hops, random))),
    groupSize: 4,
    seed,
    signal,
  });
  const all = groups.flat();
  const failed = all.filter(({ answer, question }) => exactMatch(answer, question.goldAnswers) === 0);
  console.log(`${failed.length} of ${all.length} attempts at ${count} questions failed\n`);

  const scripted = new ScriptedJudge(world);
  const tokenizer = policy.tokenizer;
  const judges: [name: string, judge: Judge, seesGold: boolean][] = [
    ["scripted: the whole plan", scripted, true],
    ...Object.entries(worseJudges(world, scripted)).map(([name, judge]): [string, Judge, boolean] => [
      name,
      judge,
      true,
    ]),
    ["scripted, without gold answer", scripted, false],
    ...(url && model
      ? [
          [model, new ChatJudge({ baseURL: address("judge-url", url), model, tokenizer }), true] as [
            string,
            Judge,
            boolean,
          ],
        ]
      : []),
  ];
  const goldQueries = ({ question }: (typeof all)[number]) =>
    world
      .parse(question.question)
      ?.chain.slice(0, -1)
      .map(({ name }) => name);
  const rows: [string, JudgeQuality][] = [];
  for (const [name, judge, seesGold] of judges) {
    rows.push([
      name,
      await evaluateJudge(judge, failed, { teacher, protocol, goldQueries, seesGold, signal }),
    ]);
  }
  // A trajectory without a critique is not turned at all.
  const worth = ({ separation, critiqueShare }: JudgeQuality) =>
    (separation.real?.mean ?? 0) * (critiqueShare ?? 0);
  rows.sort(([, a], [, b]) => worth(b) - worth(a));
  console.log(
    "| judge | critiques | leaks | gold query | failed query | separation | over empty | over shuffled |",
  );
  console.log("|---|---|---|---|---|---|---|---|");
  for (const [name, quality] of rows) console.log(`| ${[name, ...cells(quality)].join(" | ")} |`);
  console.log("\nNats per token of the query, against no hint, with 95 % intervals over questions.");
});

function cells({
  critiqueShare,
  leakShare,
  gold,
  failed,
  separation,
  overEmpty,
  overShuffled,
}: JudgeQuality): string[] {
  const share = (value: number | null) => (value === null ? "-" : `${(100 * value).toFixed(0)} %`);
  return [
    share(critiqueShare),
    share(leakShare),
    ...[gold.real, failed.real, separation.real, overEmpty, overShuffled].map(interval),
  ];
}

function interval(difference: PairedDifference | null): string {
  if (difference === null) return "-";
  const { mean, low, high } = difference;
  const spread = low === null || high === null ? "" : ` ± ${((high - low) / 2).toFixed(2)}`;
  return `${mean >= 0 ? "+" : ""}${mean.toFixed(2)}${spread}`;
}
