/**
 * The dashboard over run folders: curves, comparison, verdicts on the training signal, every trajectory.
 *
 *     npx tsx examples/inspect.ts --runs runs
 *     npx tsx examples/inspect.ts --runs runs/first --export report.html
 *     HINDSEARCH_SERVER_TOKEN=... npx tsx examples/inspect.ts --runs runs --host 0.0.0.0
 *
 * Ctrl-C ends it.
 */
import { once } from "node:events";
import { exportReport, serveDashboard } from "hindsearch";
import { readOptions, runCommand, wholeNumber } from "./world/command-line.js";

await runCommand(async (signal) => {
  const values = readOptions({ runs: "runs", host: "127.0.0.1", port: "7860", export: undefined });
  const port = wholeNumber("port", values.port, 0);
  if (values.export !== undefined) {
    const { runs, trajectories, bytes } = await exportReport(values.runs, values.export, { signal });
    console.log(
      `${values.export}: ${runs} runs, ${trajectories} trajectories, ${(bytes / 2 ** 20).toFixed(1)} MiB`,
    );
    return;
  }
  const onError = (error: unknown) => console.error(error instanceof Error ? error.message : error);
  await using server = await serveDashboard(values.runs, { host: values.host, port, onError });
  console.log(`The dashboard is at ${server.url}`);
  if (!signal.aborted) await once(signal, "abort");
});
