import { setImmediate } from "node:timers/promises";
import { HindsearchError } from "../errors.js";
import { LineTail } from "../runs/line-tail.js";
import { readBytesAt } from "../runs/regular-file.js";
import { rewardsEqual } from "../training/advantages.js";
import type { Outcome, RowsReply, TrajectoryRow } from "./messages.js";
import { type RowQuery, selectRows } from "./row-query.js";
import { rowOfLine } from "./trajectory-line.js";

/** A line of several megabytes holds up the event loop for as many hundredths of a second. */
const MAX_LINE_BYTES = 2 ** 24;
/** Each takes a kilobyte or more; a run of the paper's size has less than half as many. */
const MAX_ROWS = 2_000_000;
/** Rows of a page at most. */
const MAX_PAGE = 500;

/** Rows of a group; the ends of their rewards say what it is like. */
interface Group {
  rows: number[];
  low: number | null;
  high: number | null;
}

/**
 * An index over `trajectories.jsonl`: where each line starts, and the row that a list shows of it. The lines themselves
 * stay on disk. It grows with the file.
 */
export class TrajectoryIndex {
  readonly #tail: LineTail;
  readonly #threshold: number;
  #rows: TrajectoryRow[] = [];
  #offsets: number[] = [];
  #lengths: number[] = [];
  #byId = new Map<string, number>();
  #groups = new Map<string, Group>();
  #unreadable = 0;
  #revision = 0;
  #selected: { key: string; rows: number[] } | undefined;
  #update: Promise<void> | undefined;

  /**
   * @param path - `trajectories.jsonl`.
   * @param threshold - A reward below it is a failure.
   */
  constructor(path: string, threshold: number) {
    this.#tail = new LineTail(path, MAX_LINE_BYTES);
    this.#threshold = threshold;
  }

  /** Trajectories found so far. */
  get total(): number {
    return this.#rows.length;
  }

  /** Lines that are left out: no trajectories, too long, or too many. */
  get unreadable(): number {
    return this.#unreadable;
  }

  /** Share of the file that is indexed. */
  get indexed(): number {
    return this.#tail.size === 0 ? 1 : Math.min(1, this.#tail.position / this.#tail.size);
  }

  /** Reads what is new. Calls at the same time share one reading. */
  update(signal?: AbortSignal): Promise<void> {
    this.#update ??= this.#read(signal).finally(() => {
      this.#update = undefined;
    });
    return this.#update;
  }

  async #read(signal: AbortSignal | undefined): Promise<void> {
    await this.#tail.read(
      {
        line: (bytes, offset) => this.#take(bytes, offset),
        tooLong: () => {
          this.#unreadable++;
        },
        restart: () => this.#clear(),
      },
      signal,
    );
  }

  #clear(): void {
    this.#rows = [];
    this.#offsets = [];
    this.#lengths = [];
    this.#byId = new Map();
    this.#groups = new Map();
    this.#unreadable = 0;
    this.#revision++;
  }

  #take(bytes: Buffer, offset: number): void {
    const lone = this.#rows.length < MAX_ROWS ? rowOfLine(bytes) : undefined;
    if (lone === undefined || this.#byId.has(lone.id)) {
      this.#unreadable++;
      return;
    }
    const { reward } = lone;
    const place = this.#rows.length;
    const key = `${lone.step} ${lone.group}`;
    const group = this.#groups.get(key) ?? { rows: [], low: null, high: null };
    this.#groups.set(key, group);
    const before = this.#outcome(group);
    if (reward !== null) {
      group.low = Math.min(group.low ?? reward, reward);
      group.high = Math.max(group.high ?? reward, reward);
    }
    const outcome = this.#outcome(group);
    // It changes at most twice while a group grows.
    if (outcome !== before)
      for (const row of group.rows) (this.#rows[row] as TrajectoryRow).outcome = outcome;
    group.rows.push(place);
    this.#rows.push({ ...lone, failed: reward !== null && reward < this.#threshold, outcome });
    this.#offsets.push(offset);
    this.#lengths.push(bytes.length);
    this.#byId.set(lone.id, place);
    this.#revision++;
  }

  #outcome({ low, high }: Group): Outcome {
    if (low === null || high === null) return "unscored";
    if (!rewardsEqual([low, high])) return "mixed";
    return low < this.#threshold ? "all-fail" : "all-pass";
  }

  /**
   * A page of the rows that match.
   *
   * @param query - Which, and in what order.
   * @param offset - First one.
   * @param limit - Rows at most, up to 500.
   * @param locate - Id of a trajectory whose place is wanted.
   */
  page(query: RowQuery, offset: number, limit: number, locate?: string): RowsReply {
    const { rows } = this.#select(query);
    const wanted = locate === undefined ? -1 : rows.indexOf(this.#byId.get(locate) ?? -1);
    return {
      total: this.#rows.length,
      matched: rows.length,
      offset,
      rows: rows
        .slice(offset, offset + Math.min(limit, MAX_PAGE))
        .map((row) => this.#rows[row] as TrajectoryRow),
      located: wanted < 0 ? null : wanted,
      indexed: this.indexed,
      unreadable: this.#unreadable,
      revision: String(this.#revision),
    };
  }

  /** The last selection is kept: a list that is scrolled asks for it page by page. */
  #select(query: RowQuery) {
    const key = JSON.stringify([this.#revision, query]);
    if (this.#selected?.key !== key) {
      this.#selected = { key, rows: selectRows(this.#rows, query) };
    }
    return this.#selected;
  }

  /** Rows of the group of a trajectory, in the order of their samples; empty if it is unknown. */
  siblings(id: string): TrajectoryRow[] {
    const row = this.#rows[this.#byId.get(id) ?? -1];
    if (row === undefined) return [];
    const group = this.#groups.get(`${row.step} ${row.group}`);
    return (group?.rows ?? [])
      .map((place) => this.#rows[place] as TrajectoryRow)
      .sort((a, b) => a.sample - b.sample);
  }

  /** Ids by group, in the order of the run. */
  groups(): string[][] {
    return [...this.#groups.values()].map(({ rows }) =>
      rows.map((place) => (this.#rows[place] as TrajectoryRow).id),
    );
  }

  /**
   * The line of a trajectory as JSON.
   *
   * @returns `undefined` if there is none of that id.
   * @throws {@link HindsearchError} `IO`; `INVALID_DATA` if another line stands there now: the run was rewound.
   */
  async line(id: string): Promise<{ row: TrajectoryRow; json: unknown } | undefined> {
    const place = this.#byId.get(id);
    if (place === undefined) return undefined;
    const [row, offset, length] = [this.#rows[place], this.#offsets[place], this.#lengths[place]];
    const bytes = await readBytesAt(this.#tail.path, offset as number, length as number);
    let json: unknown;
    try {
      json = JSON.parse(bytes.toString());
    } catch {
      json = undefined;
    }
    if ((json as { id?: unknown } | undefined)?.id !== id) {
      throw new HindsearchError(
        "INVALID_DATA",
        `${this.#tail.path} was rewritten: trajectory ${id} is no longer where it was. Ask again.`,
      );
    }
    // Parsing a long line took its time.
    await setImmediate();
    return { row: row as TrajectoryRow, json };
  }
}
