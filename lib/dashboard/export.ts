import { createHash } from "node:crypto";
import { z } from "zod";
import { type AbortOptions, throwIfAborted } from "../abort.js";
import { HindsearchError } from "../errors.js";
import { count, parseOptions } from "../network/options.js";
import { writeFileDurably } from "../runs/durable.js";
import type { Report, TrajectoryView } from "./messages.js";
import { type PageFiles, readPageFiles } from "./page-files.js";
import { compareRuns, RunCollection } from "./run-collection.js";
import type { WatchedRun } from "./watched-run.js";

/** Settings of {@link exportReport}. */
export interface ExportOptions extends AbortOptions {
  /**
   * Trajectories per run at most: whole groups, evenly spread over the run, first and last included. Default 400; 0 leaves
   * them out.
   */
  maxTrajectories?: number | undefined;
}

const Options = z.strictObject({
  maxTrajectories: count.or(z.literal(0)).default(400),
  signal: z.instanceof(AbortSignal).optional(),
});

/** What {@link exportReport} wrote. */
export interface ExportedReport {
  /** Runs in it. */
  runs: number;
  /** Trajectories in it, of all runs. */
  trajectories: number;
  /** Size of the file. */
  bytes: number;
}

/**
 * Writes the dashboard of some runs into one HTML file, which opens without a server and without a network: curves,
 * comparison, verdicts, settings and a sample of the trajectories. The data is JSON in an element that is no script, and
 * the file's own content-security policy allows no script but the page's.
 *
 * @param runs - Run folders, or folders that hold some.
 * @param file - Where; a file that exists is replaced.
 * @param options - How much.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` if there is no run, `IO`, `ABORTED`.
 */
export async function exportReport(
  runs: string | readonly string[],
  file: string,
  options: ExportOptions = {},
): Promise<ExportedReport> {
  const checked = parseOptions(Options, options, "exportReport");
  throwIfAborted(checked.signal);
  return writeReport([runs].flat(), file, checked, await readPageFiles());
}

/** The same with the files of the page given. @internal */
export async function writeReport(
  folders: readonly string[],
  file: string,
  { maxTrajectories, signal }: z.output<typeof Options>,
  page: PageFiles,
): Promise<ExportedReport> {
  const collection = new RunCollection(folders);
  await collection.refresh();
  const { all } = collection;
  if (all.length === 0) {
    throw new HindsearchError("INVALID_ARGUMENT", `There is no run in ${folders.join(", ")}.`);
  }
  const trajectories: Report["trajectories"] = {};
  for (const run of all) {
    await run.trajectories.update(signal);
    trajectories[run.id] = {
      views: await sampleOf(run, maxTrajectories, signal),
      total: run.trajectories.total,
    };
  }
  const report: Report = {
    made: new Date().toISOString(),
    runs: await collection.summaries(),
    curves: all.map((run) => run.curves()),
    compare: all.map((base) => compareRuns(base, all)),
    trajectories,
    configs: Object.fromEntries(all.map((run) => [run.id, run.config])),
  };
  const html = reportHtml(report, page);
  throwIfAborted(signal);
  try {
    await writeFileDurably(file, html);
  } catch (cause) {
    throw new HindsearchError("IO", `Could not write the report to ${file}: ${(cause as Error).message}.`, {
      cause,
    });
  }
  const views = Object.values(trajectories).reduce((sum, { views }) => sum + views.length, 0);
  return { runs: all.length, trajectories: views, bytes: Buffer.byteLength(html) };
}

/** Whole groups, evenly spread. A line that cannot be read is left out. */
async function sampleOf(
  run: WatchedRun,
  most: number,
  signal: AbortSignal | undefined,
): Promise<TrajectoryView[]> {
  const groups = run.trajectories.groups();
  const size = groups.reduce((sum, ids) => sum + ids.length, 0) / Math.max(1, groups.length);
  const wanted = Math.min(groups.length, Math.floor(most / Math.max(1, size)));
  const views: TrajectoryView[] = [];
  for (let i = 0; i < wanted; i++) {
    const group = groups[wanted === 1 ? 0 : Math.round((i * (groups.length - 1)) / (wanted - 1))] ?? [];
    for (const id of group.slice(0, most - views.length)) {
      throwIfAborted(signal);
      const view = await run.trajectory(id).catch((error) => {
        if (error instanceof HindsearchError && error.code === "INVALID_DATA") return undefined;
        throw error;
      });
      if (view) views.push(view);
    }
  }
  return views;
}

/** The page with everything in it. */
function reportHtml(report: Report, { html, script, style }: PageFiles): string {
  const hash = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const policy =
    `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data:; base-uri 'none'; ` +
    "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
  // Neither an end tag nor a comment can be written without "<"; JSON may escape it.
  const data = JSON.stringify(report).replaceAll("<", "\\u003c");
  // Functions, so that a "$&" in what is put in stays what it is.
  const filled = html
    .replace('<link rel="stylesheet" href="page.css">', () => `<style>${style}</style>`)
    .replace(
      '<script src="page.js" defer></script>',
      () => `<script type="application/json" id="report">${data}</script>\n<script>${script}</script>`,
    )
    .replace(
      '<meta charset="utf-8">',
      (meta) => `${meta}\n<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    );
  return filled;
}
