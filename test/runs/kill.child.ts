/**
 * A training in the tiny world that goes on with its run folder, prints the steps that it has done, and at its end a hash of
 * the weights. If told to, it kills itself before a given operation on the files of a checkpoint.
 *
 *     kill.child.ts <run folder> <folder of the initial policy> <steps> <operation, or 0>
 */
import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import fs, { type FileHandle } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";

const [runFolder = "", initial = "", steps = "", operation = "0"] = process.argv.slice(2);
const say = (line: string) => writeSync(1, `${line}\n`);

let left = Number(operation);
const count = () => {
  if (--left === 0) process.kill(process.pid, "SIGKILL");
};
if (left > 0) {
  for (const name of ["open", "rename", "rm", "mkdir", "writeFile", "unlink"] as const) {
    const original = fs[name] as (...values: unknown[]) => Promise<unknown>;
    const counted = async (...values: unknown[]) => {
      const inside = String(values[0]).includes("checkpoints");
      if (inside) count();
      const result = await original(...values);
      if (inside && name === "open") {
        const file = result as FileHandle;
        const sync = file.sync.bind(file);
        file.sync = () => {
          count();
          return sync();
        };
      }
      return result;
    };
    Object.assign(fs, { [name]: counted });
  }
  syncBuiltinESMExports();
}

const { Policy, HindSearchTrainer } = await import("../../lib/index.js");
const { allWeights, OPTIONS } = await import("../support/tiny-options.js");
const policy = await Policy.load(initial, { compute: "f32" });
const trainer = new HindSearchTrainer({
  ...OPTIONS,
  policy,
  steps: Number(steps),
  runFolder,
  resume: true,
  evaluation: {
    questions: [{ id: "q", question: "colour of ann of ann ?", goldAnswers: ["red"] }],
    every: 4,
  },
  onWarning: () => {},
});
say("begins");
for await (const { step } of trainer) say(`done ${step + 1}`);
const hash = createHash("sha256").update(Float32Array.from(await allWeights(policy)));
say(`weights ${hash.digest("hex")}`);
