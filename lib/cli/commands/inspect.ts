import { once } from "node:events";
import type { Command } from "commander";
import { exportReport } from "../../dashboard/export.js";
import { serveDashboard } from "../../dashboard/server.js";
import { type CommandContext, onRun } from "../context.js";
import { port, wholeNumber } from "../options.js";
import type { OutputStreams } from "../output.js";

interface InspectOptions {
  host: string;
  port: number;
  export?: string;
  maxTrajectories: number;
}

/** `hindsearch inspect`. */
export function inspectCommand(program: Command, streams: OutputStreams): void {
  const command = program
    .command("inspect")
    .description("shows runs in a browser: curves, comparison, verdicts, trajectories")
    .argument("[runs...]", "run folders, or folders that hold some", ["runs"])
    .option(
      "--host <address>",
      "address to serve on; others than 127.0.0.1 need HINDSEARCH_SERVER_TOKEN",
      "127.0.0.1",
    )
    .option("--port <number>", "port; 0 takes a free one", port, 7860)
    .option("--export <file>", "write one HTML file that opens offline, and serve nothing")
    .option("--max-trajectories <number>", "trajectories per run in that file", wholeNumber(0), 400);
  onRun(command, streams, inspect);
}

async function inspect(
  { output, interrupt }: CommandContext,
  options: InspectOptions,
  runs: string[],
): Promise<void> {
  const { host, port, maxTrajectories } = options;
  const signal = interrupt.stop;
  if (options.export !== undefined) {
    const report = await exportReport(runs, options.export, { maxTrajectories, signal });
    output.event("report", { file: options.export, ...report });
    output.line(
      `${options.export}: ${report.runs} runs, ${report.trajectories} trajectories, ${(report.bytes / 2 ** 20).toFixed(1)} MiB`,
    );
    return;
  }
  const onError = (error: unknown) => output.warn(error instanceof Error ? error.message : String(error));
  await using server = await serveDashboard(runs, { host, port, onError });
  output.event("serving", { url: server.url });
  output.line(`The dashboard is at ${server.url}`);
  output.note("Ctrl-C ends it.");
  if (!signal.aborted) await once(signal, "abort");
}
