/**
 * The demo: a small model learns to search in a generated world, by GRPO and by HindSearch side by side.
 *
 *     npm run demo
 *     npm run demo -- --seed 2 --steps 40
 *     npm run demo -- --judge-url http://localhost:8000/v1 --judge-model my-model
 *
 * The key of a judge's endpoint is read from HINDSEARCH_JUDGE_API_KEY.
 */
import { mkdtemp, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { ArmProgress, ArmResult, ArmTask } from "./world/arm.js";
import { address, readOptions, runCommand, weightOf, wholeNumber } from "./world/command-line.js";
import { type Curve, svgPlot, textPlot } from "./world/plot.js";
import { runInProcess } from "./world/run-arms.js";
import { ARM_TITLES, SETTINGS } from "./world/settings.js";
import { WARM_START, warmStart } from "./world/warm-start.js";

const started = performance.now();
const seconds = () => `${((performance.now() - started) / 1_000).toFixed(0).padStart(4)} s`;
const live = process.stdout.isTTY;

await runCommand(async (signal) => {
  const values = readOptions({
    seed: "1",
    steps: String(SETTINGS.steps),
    weight: String(SETTINGS.distillationWeight),
    runs: "runs",
    "judge-url": undefined,
    "judge-model": "default",
  });
  const seed = wholeNumber("seed", values.seed, 0);
  const steps = wholeNumber("steps", values.steps, 1);
  const weight = weightOf("weight", values.weight);
  const url = values["judge-url"] && address("judge-url", values["judge-url"]);
  const runs = resolve(values.runs);

  console.log("1. Warm start: a 0.3 M parameter model imitates a searcher with good and bad habits.");
  const model = await warmStart(runs, signal, (step, loss) => {
    if (step % (live ? 10 : 200) !== 0 && step !== WARM_START.steps) return;
    const line = `   ${seconds()}  step ${step} of ${WARM_START.steps}, loss ${loss.toFixed(3)}`;
    if (live) process.stdout.write(`\r${line}`);
    else console.log(line);
  });
  console.log(`${live ? "\n" : ""}   ${seconds()}  ${model}`);

  console.log(
    "\n2. The same seed by GRPO and by HindSearch, side by side; evaluation in a world that training never saw.",
  );
  const stamp = new Date().toISOString().replace(/[:.]/g, "-").slice(0, 19);
  const folder = await mkdtemp(join(runs, `demo-${stamp}-`));
  const task = (arm: ArmTask["arm"]): ArmTask => ({
    arm,
    seed,
    steps,
    weight,
    warmStart: model,
    runFolder: join(folder, arm),
    ...(url && { judge: { url, model: values["judge-model"] } }),
  });
  const results = await Promise.all(
    (["grpo", "hindsearch"] as const).map((arm) => runInProcess(task(arm), report(arm), signal)),
  );
  await show(results, folder);
});

async function show(results: readonly ArmResult[], folder: string): Promise<void> {
  const curves = (measure: "sampled" | "greedy"): Curve[] =>
    results.map(({ arm, curve }) => ({
      name: `${ARM_TITLES[arm]}, ${measure}`,
      points: curve.map((point) => ({ step: point.step, value: point[measure] })),
    }));
  console.log(`\n3. Exact match on ${SETTINGS.evaluationQuestions} questions of the second world\n`);
  console.log(table(results));
  console.log(`\n${textPlot(curves("greedy"))}\n`);
  await writeFile(
    join(folder, "exact-match.svg"),
    svgPlot("Exact match, greedy and sampled", [...curves("greedy"), ...curves("sampled")]),
  );
  await writeFile(join(folder, "results.json"), `${JSON.stringify(results, null, 1)}\n`);
  console.log(`Plot:  ${join(folder, "exact-match.svg")}`);
  for (const { arm } of results)
    console.log(`Run:   ${join(folder, arm)}  (config.json, metrics.jsonl, trajectories.jsonl, checkpoints)`);
  console.log(
    `Time:  ${seconds().trim()}. One seed is one sample: npm run ablation compares seven, with controls.`,
  );
}

function report(arm: ArmTask["arm"]) {
  return ({ step, reward, evaluation }: ArmProgress) => {
    const name = ARM_TITLES[arm].padEnd(10);
    if (evaluation) {
      const { sampled, greedy } = evaluation;
      console.log(
        `   ${seconds()}  ${name}  step ${String(step).padStart(2)}  EM ${sampled.toFixed(3)} sampled, ${greedy.toFixed(3)} greedy`,
      );
    } else if (live) {
      process.stdout.write(
        `\r   ${seconds()}  ${name}  step ${String(step).padStart(2)}  training EM ${(reward ?? 0).toFixed(3)}   \r`,
      );
    }
  };
}

function table(arms: readonly ArmResult[]): string {
  const heads = arms.flatMap(({ arm }) => [`${ARM_TITLES[arm]} sampled`, "greedy"]);
  const rows = (arms[0]?.curve ?? []).map(({ step }, i) => [
    String(step),
    ...arms.flatMap(({ curve }) => [curve[i]?.sampled.toFixed(3) ?? "", curve[i]?.greedy.toFixed(3) ?? ""]),
  ]);
  const all = [["step", ...heads], ...rows];
  const widths = ["step", ...heads].map((_, column) =>
    Math.max(...all.map((row) => (row[column] ?? "").length)),
  );
  return all
    .map((row) => `   ${row.map((cell, column) => cell.padStart(widths[column] ?? 0)).join("   ")}`)
    .join("\n");
}
