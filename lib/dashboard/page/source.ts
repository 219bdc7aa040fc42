import type {
  CompareReply,
  Report,
  RowsReply,
  RunCurves,
  RunsReply,
  TrajectoryRow,
  TrajectoryView,
} from "../messages.js";
import { formatRowQuery, type RowQuery, selectRows } from "../row-query.js";

/** Where the page's data comes from. */
export interface Source {
  /** Whether it can change. */
  readonly live: boolean;
  /** A line about it for the foot of the page. */
  readonly note: string;
  runs(): Promise<RunsReply>;
  curves(run: string): Promise<RunCurves>;
  compare(base: string, runs: readonly string[]): Promise<CompareReply>;
  config(run: string): Promise<string>;
  rows(run: string, query: RowQuery, offset: number, limit: number, locate?: string): Promise<RowsReply>;
  trajectory(run: string, id: string): Promise<TrajectoryView>;
}

/** The server wants a token, or another one. */
export class TokenNeeded extends Error {}

const TOKEN = "hindsearch-token";

/** Keeps a token for this tab. */
export function keepToken(token: string): void {
  sessionStorage.setItem(TOKEN, token);
}

/** Asks the server that the page came from. */
export class HttpSource implements Source {
  readonly live = true;
  readonly note = "";

  runs(): Promise<RunsReply> {
    return ask("runs", {});
  }

  async curves(run: string): Promise<RunCurves> {
    return ask("curves", { run });
  }

  compare(base: string, runs: readonly string[]): Promise<CompareReply> {
    return ask("compare", { base, run: runs });
  }

  async config(run: string): Promise<string> {
    return (await ask<{ text: string }>("config", { run })).text;
  }

  rows(run: string, query: RowQuery, offset: number, limit: number, locate?: string): Promise<RowsReply> {
    const position = {
      offset: String(offset),
      limit: String(limit),
      ...(locate !== undefined && { locate }),
    };
    return ask("trajectories", { run, ...Object.fromEntries(formatRowQuery(query)), ...position });
  }

  trajectory(run: string, id: string): Promise<TrajectoryView> {
    return ask("trajectory", { run, id });
  }
}

async function ask<Reply>(
  name: string,
  values: Readonly<Record<string, string | readonly string[]>>,
): Promise<Reply> {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    for (const one of [value].flat()) parameters.append(key, one);
  }
  const token = sessionStorage.getItem(TOKEN);
  const response = await fetch(`api/${name}?${parameters}`, {
    headers: token === null ? {} : { authorization: `Bearer ${token}` },
  });
  if (response.status === 401) throw new TokenNeeded();
  const body = (await response.json()) as Reply & { detail?: string };
  if (response.ok) return body;
  throw new Error(body.detail ?? `The server answered ${response.status}.`);
}

/** Reads a report that stands in the page itself. */
export class ReportSource implements Source {
  readonly live = false;
  readonly note: string;
  readonly #report: Report;

  constructor(report: Report) {
    this.#report = report;
    this.note = `Report made ${report.made.slice(0, 16).replace("T", " ")} UTC.`;
  }

  /** The report of this page, if it is one. */
  static find(): ReportSource | undefined {
    const text = document.getElementById("report")?.textContent;
    return text ? new ReportSource(JSON.parse(text) as Report) : undefined;
  }

  async runs(): Promise<RunsReply> {
    return this.#report.runs;
  }

  async curves(run: string): Promise<RunCurves> {
    return found(this.#report.curves.find((curves) => curves.run === run));
  }

  async compare(base: string, runs: readonly string[]): Promise<CompareReply> {
    const reply = found(this.#report.compare.find((compare) => compare.base === base));
    return { base, pairs: reply.pairs.filter(({ run }) => runs.includes(run)) };
  }

  async config(run: string): Promise<string> {
    return found(this.#report.configs[run]);
  }

  async rows(
    run: string,
    query: RowQuery,
    offset: number,
    limit: number,
    locate?: string,
  ): Promise<RowsReply> {
    const { views } = found(this.#report.trajectories[run]);
    const rows = views.map(({ row }) => row);
    const selected = selectRows(rows, query);
    const located = selected.findIndex((place) => rows[place]?.id === locate);
    return {
      total: rows.length,
      matched: selected.length,
      offset,
      rows: selected.slice(offset, offset + limit).map((place) => rows[place] as TrajectoryRow),
      located: located < 0 ? null : located,
      indexed: 1,
      unreadable: 0,
      revision: "",
    };
  }

  async trajectory(run: string, id: string): Promise<TrajectoryView> {
    return found(this.#report.trajectories[run]?.views.find(({ row }) => row.id === id));
  }
}

function found<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error("This report does not hold it.");
  return value;
}
