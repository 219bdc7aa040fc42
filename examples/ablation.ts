/**
 * The ablation: GRPO, HindSearch and its controls over several seeds in the generated world, with 95 % intervals of the
 * difference to GRPO on the same seed.
 *
 *     npm run ablation
 *     npm run ablation -- --seeds 1,2,3 --arms grpo,hindsearch --weight 0.1
 *
 * Finished runs are kept in runs/ablation/results.jsonl; a second call goes on with what is missing.
 */
import { appendFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { type PairedDifference, pairedDifference } from "hindsearch";
import type { ArmResult, ArmTask } from "./world/arm.js";
import { readOptions, runCommand, UsageError, weightOf, wholeNumber } from "./world/command-line.js";
import { runAll } from "./world/run-arms.js";
import { ARM_TITLES, type Arm, SETTINGS } from "./world/settings.js";
import { warmStart } from "./world/warm-start.js";

/** A finished run, with the settings that it belongs to. */
interface Finished extends ArmResult {
  steps: number;
  warmStart: string;
}

await runCommand(async (signal) => {
  const values = readOptions({
    seeds: "1,2,3,4,5,6,7",
    arms: Object.keys(ARM_TITLES).join(","),
    weight: String(SETTINGS.distillationWeight),
    steps: String(SETTINGS.steps),
    runs: "runs",
    results: undefined,
    parallel: "2",
  });
  const runs = resolve(values.runs);
  const file = resolve(values.results ?? join(runs, "ablation", "results.jsonl"));
  const parallel = wholeNumber("parallel", values.parallel, 1);
  const plan = {
    seeds: values.seeds.split(",").map((seed) => wholeNumber("seeds", seed, 0)),
    arms: values.arms.split(",").map(armOf),
    weight: weightOf("weight", values.weight),
    steps: wholeNumber("steps", values.steps, 1),
  };
  await mkdir(dirname(file), { recursive: true });
  const model = await warmStart(runs, signal, (step, loss) => {
    if (step % 200 === 0) console.log(`warm start ${step}, loss ${loss.toFixed(3)}`);
  });
  const warmStartName = basename(model);
  const finished = await readFinished(file);
  const find = (arm: Arm, seed: number) =>
    finished.find((run) => {
      const same =
        run.arm === arm && run.seed === seed && run.steps === plan.steps && run.warmStart === warmStartName;
      return same && (arm === "grpo" || run.weight === plan.weight);
    });
  const { steps, weight } = plan;
  const tasks = plan.seeds.flatMap((seed) =>
    plan.arms.map((arm): ArmTask => ({ arm, seed, steps, weight, warmStart: model })),
  );
  const missing = tasks.filter(({ arm, seed }) => !find(arm, seed));
  const started = performance.now();
  let done = 0;
  await runAll(missing, parallel, signal, async (result) => {
    const run: Finished = { ...result, steps, warmStart: warmStartName };
    finished.push(run);
    await appendFile(file, `${JSON.stringify(run)}\n`);
    const last = result.curve.at(-1);
    const minutes = ((performance.now() - started) / 60_000).toFixed(1);
    console.log(
      `${++done} of ${missing.length}, ${minutes} min: ${ARM_TITLES[result.arm]}, seed ${result.seed}: ` +
        `${last?.sampled.toFixed(3)} sampled, ${last?.greedy.toFixed(3)} greedy, ${result.stepMilliseconds.toFixed(0)} ms a step`,
    );
  });

  const lines = report(plan, find);
  console.log(`\n${lines}`);
  await writeFile(join(dirname(file), "table.md"), lines);
});

function armOf(name: string): Arm {
  if (Object.hasOwn(ARM_TITLES, name)) return name as Arm;
  throw new UsageError(`--arms has "${name}"; arms are ${Object.keys(ARM_TITLES).join(", ")}.`);
}

/** The finished runs. A last line that a kill cut off is dropped from the file. */
async function readFinished(file: string): Promise<Finished[]> {
  const text = await readFile(file, "utf8").catch((error) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  if (whole !== text) await writeFile(file, whole);
  return whole
    .split("\n")
    .filter(Boolean)
    .map((line, i) => {
      try {
        return JSON.parse(line) as Finished;
      } catch {
        throw new UsageError(`${file}, line ${i + 1} is no JSON; mend it or move the file away.`);
      }
    });
}

interface Plan {
  seeds: readonly number[];
  arms: readonly Arm[];
  weight: number;
  steps: number;
}

type Find = (arm: Arm, seed: number) => Finished | undefined;

function report(plan: Plan, find: Find): string {
  const { seeds, arms, weight, steps } = plan;
  const head = ["arm", "seeds", "EM by step, sampled", "EM by step, greedy"];
  const differences = ["mean, sampled", "final, sampled", "mean, greedy", "final, greedy"];
  const rows = arms.map((arm) => {
    const own = seeds.flatMap((seed) => find(arm, seed) ?? []);
    return [
      ARM_TITLES[arm],
      String(own.length),
      curve(own, "sampled", steps),
      curve(own, "greedy", steps),
      ...compare(arm, seeds, find),
    ];
  });
  const signal = arms.map((arm) => signalRow(arm, seeds, find));
  const signalHead = [
    "arm",
    "step",
    "failed",
    "gap real / shuffled / empty",
    "weight real / shuffled / empty",
    "gradient ratio",
    "cosine",
  ];
  return (
    `Distillation weight ${weight}, ${steps} steps, ${SETTINGS.questionsPerStep} x ${SETTINGS.groupSize} rollouts a step. ` +
    "Differences are to GRPO on the same seed, with 95 % t intervals; mean: over all evaluations after step 0.\n\n" +
    `${markdown([...head, ...differences.map((name) => `difference, ${name}`)], rows)}\n\nSignal on the measured steps, mean over the seeds\n\n` +
    `${markdown(signalHead, signal.flat())}\n`
  );
}

function compare(arm: Arm, seeds: readonly number[], find: Find): string[] {
  if (arm === "grpo") return ["", "", "", ""];
  const pairs = seeds.flatMap((seed) => {
    const [own, baseline] = [find(arm, seed), find("grpo", seed)];
    return own && baseline ? [{ own, baseline }] : [];
  });
  if (pairs.length === 0) return ["", "", "", ""];
  return (["sampled", "greedy"] as const).flatMap((measure) =>
    [area, final].map((of) =>
      interval(
        pairedDifference(
          pairs.map(({ own }) => of(own, measure)),
          pairs.map(({ baseline }) => of(baseline, measure)),
        ),
      ),
    ),
  );
}

function area({ curve }: ArmResult, measure: "sampled" | "greedy"): number {
  return mean(curve.filter(({ step }) => step > 0).map((point) => point[measure]));
}

function final({ curve }: ArmResult, measure: "sampled" | "greedy"): number {
  return curve.at(-1)?.[measure] ?? Number.NaN;
}

function interval({ mean: value, low, high }: PairedDifference): string {
  const spread = low === null || high === null ? "" : ` +- ${((high - low) / 2).toFixed(3)}`;
  return `${value >= 0 ? "+" : ""}${value.toFixed(3)}${spread}`;
}

function curve(results: readonly ArmResult[], measure: "sampled" | "greedy", steps: number): string {
  const at = results[0]?.curve ?? [];
  return at
    .filter(({ step }) => step % 10 === 0 || step === steps)
    .map(({ step }) =>
      mean(
        results.map((run) => run.curve.find((point) => point.step === step)?.[measure] ?? Number.NaN),
      ).toFixed(3),
    )
    .join(" / ");
}

function signalRow(arm: Arm, seeds: readonly number[], find: Find): string[][] {
  const own = seeds.flatMap((seed) => find(arm, seed) ?? []);
  return (own[0]?.signal ?? []).map(({ step }) => {
    const at = own.flatMap(({ signal }) => signal.filter((one) => one.step === step));
    const value = (key: Exclude<keyof (typeof at)[number], "step">, digits = 2) => {
      const numbers = at.flatMap((one) => one[key] ?? []);
      return numbers.length === 0 ? "-" : mean(numbers).toFixed(digits);
    };
    return [
      ARM_TITLES[arm],
      String(step),
      value("failedShare"),
      `${value("meanGap")} / ${value("shuffledGap")} / ${value("emptyGap")}`,
      `${value("meanWeight", 3)} / ${value("shuffledWeight", 3)} / ${value("emptyWeight", 3)}`,
      value("gradientRatio"),
      value("cosine"),
    ];
  });
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
