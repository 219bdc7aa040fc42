import { readFile } from "node:fs/promises";
import type { CompareReply, RunsReply } from "./messages.js";
import { findRuns } from "./run-finder.js";
import { WatchedRun } from "./watched-run.js";

/** Folders are looked through again at most this often. */
const FIND_MS = 5_000;

/** The runs of some folders, found again as they appear. */
export class RunCollection {
  readonly #folders: readonly string[];
  readonly #runs = new Map<string, { folder: string; run: WatchedRun }>();
  #looked = Number.NEGATIVE_INFINITY;
  #refresh: Promise<void> | undefined;

  /** @param folders - Each is a run or holds some. */
  constructor(folders: readonly string[]) {
    this.#folders = folders;
  }

  /** Looks for runs and reads what is new of them. Calls at the same time share one reading. */
  refresh(): Promise<void> {
    this.#refresh ??= this.#read().finally(() => {
      this.#refresh = undefined;
    });
    return this.#refresh;
  }

  async #read(): Promise<void> {
    if (performance.now() - this.#looked > FIND_MS) {
      const found = await findRuns(this.#folders);
      this.#looked = performance.now();
      const ids = new Set(found.map(({ id }) => id));
      for (const id of this.#runs.keys()) if (!ids.has(id)) this.#runs.delete(id);
      for (const run of found) {
        if (this.#runs.get(run.id)?.folder === run.folder) continue;
        this.#runs.set(run.id, { folder: run.folder, run: await WatchedRun.open(run) });
      }
    }
    for (const { run } of this.#runs.values()) await run.refresh();
  }

  /** A run by its id. */
  get(id: string): WatchedRun | undefined {
    return this.#runs.get(id)?.run;
  }

  /** All of them. */
  get all(): WatchedRun[] {
    return [...this.#runs.values()].map(({ run }) => run);
  }

  /** The overview. */
  async summaries(): Promise<RunsReply> {
    return {
      folder: this.#folders.join(", "),
      version: await packageVersion(),
      runs: this.all.map((run) => run.summary()),
    };
  }
}

/** Runs against a base: paired by question at every evaluation that both made. */
export function compareRuns(base: WatchedRun, others: readonly WatchedRun[]): CompareReply {
  return {
    base: base.id,
    pairs: others
      .filter((run) => run !== base)
      .map((run) => {
        const differences = run.metrics.against(base.metrics);
        const reason =
          differences.length > 0
            ? null
            : "No evaluation of the two at the same step, in the same mode and on the same questions.";
        return { run: run.id, differences, reason };
      }),
  };
}

let version: Promise<string> | undefined;
function packageVersion(): Promise<string> {
  version ??= readFile(new URL("../../package.json", import.meta.url), "utf8").then(
    (text) => String((JSON.parse(text) as { version?: unknown }).version),
    () => "",
  );
  return version;
}
