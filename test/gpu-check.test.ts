import { spawnSync } from "node:child_process";
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { afterEach, expect, test } from "vitest";

let root: string;
afterEach(() => rm(root, { recursive: true, force: true }));

async function standIn(path: string, script: string) {
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
}

test("a benchmark that fails after its first line fails the check, and nothing else does", async () => {
  root = await mkdtemp(join(tmpdir(), "hindsearch-gpu-check-"));
  for (const file of ["scripts/gpu-check.sh", "bench/gpu-table.py"]) {
    await cp(join(resolve(import.meta.dirname, ".."), file), join(root, file));
  }
  const tools = join(root, "tools");
  const built = join(root, "build/cmake-gpu/native/test/cuda");
  await mkdir(tools);
  await mkdir(built, { recursive: true });
  for (const name of ["nvcc", "cmake", "g++", "ctest", "compute-sanitizer"]) {
    await standIn(join(tools, name), "exit 0");
  }
  // It has no PyTorch, but writes the table.
  const python = 'case $1 in -*) exit 1 ;; *) PATH=$(echo "$PATH" | cut -d: -f2-) exec python3 "$@" ;; esac';
  await standIn(join(tools, "python3"), python);
  const row = { work: "train", model: "3b", batch: 8, length: 2048, tokensPerSecond: 5, peakBytes: 9 };
  await standIn(join(built, "gpu_bench"), `echo '${JSON.stringify(row)}'; exit 3`);

  const { status } = spawnSync("bash", [join(root, "scripts/gpu-check.sh")], {
    env: {
      ...process.env,
      HINDSEARCH_SHARED: join(root, "none"),
      PATH: `${tools}${delimiter}${process.env.PATH}`,
    },
  });
  expect(status).toBe(1);
  const { steps, rows } = JSON.parse(await readFile(join(root, "build/gpu-check/gpu-check.json"), "utf8"));
  const failed = steps.filter((step: { verdict: string }) => step.verdict === "FAILED");
  expect(failed).toMatchObject([{ name: "0.5B" }, { name: "3B" }]);
  expect(rows).toMatchObject([row, row]);
  const skipped = steps.filter((step: { verdict: string }) => step.verdict === "not run");
  expect(skipped[0].name).toBe(
    `golden models and gradients against PyTorch: there is no folder ${join(root, "none")}`,
  );
});
