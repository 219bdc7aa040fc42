import { randomUUID } from "node:crypto";
import { HindsearchError } from "../errors.js";
import { Scrubber } from "../network/secrets.js";
import { type Recorded, type RecordKey, RecordStore } from "./record-store.js";

/**
 * What a cache does.
 *
 * - `off`: nothing; every call goes through.
 * - `record`: every call goes through once per run, and what it gives is recorded, in place of older records.
 * - `replay`: only records answer; nothing goes through.
 * - `replay-else-record`: a record answers if there is one, else the call goes through and is recorded.
 */
export type ReplayMode = "off" | "record" | "replay" | "replay-else-record";

/** Settings of {@link ReplayCache}. */
export interface ReplayCacheOptions {
  /** Where the records are; may be shared by processes and machines. */
  folder: string;
  /** What is done. */
  mode: ReplayMode;
  /**
   * Values that are never written, in addition to those of the environment variables `HINDSEARCH_…_API_KEY`, `…_TOKEN`
   * and `…_PASSWORD` and of `PGPASSWORD`: `***` stands in their place, in the record and in what this run is given.
   */
  secrets?: readonly string[] | undefined;
}

/** What a {@link ReplayCache} did so far. */
export interface ReplayStats {
  /** Calls that a record answered, also one that this run had made. */
  hits: number;
  /** Calls that no record answered. */
  misses: number;
  /** Records written. */
  written: number;
}

/** What was said to a call. */
export interface ReplayAnswer<T> {
  /** As it was recorded. */
  answer: T;
  /** Whether a record answered. */
  replayed: boolean;
}

interface Call {
  index: number;
  key: RecordKey;
  name: string;
}

const SECRET_VARIABLE = /^(?:HINDSEARCH_\w*(?:API_KEY|TOKEN|PASSWORD)|PGPASSWORD)$/;
const MODES: readonly ReplayMode[] = ["off", "record", "replay", "replay-else-record"];

/**
 * Remembers what judges and retrievers said, by content: see `recordedJudge` and `recordedRetriever`.
 *
 * Within a run equal calls are made once and given one answer, whatever the mode but `off`: that is what makes a run with
 * a judge that samples repeat itself bit for bit when it is replayed. It holds after a resume too: checkpoints name the run
 * that records, and its records answer as if they had just been made.
 */
export class ReplayCache {
  /** What is done. */
  readonly mode: ReplayMode;
  readonly #store: RecordStore;
  readonly #scrubber: Scrubber;
  /** Calls under way. */
  readonly #open = new Map<string, Promise<unknown>>();
  /** By this object. */
  readonly #written = new Set<string>();
  #run: string = randomUUID();
  readonly #stats: ReplayStats = { hits: 0, misses: 0, written: 0 };

  /** @throws {@link HindsearchError} `INVALID_ARGUMENT`. */
  constructor({ folder, mode, secrets = [] }: ReplayCacheOptions) {
    if (!MODES.includes(mode)) {
      throw new HindsearchError("INVALID_ARGUMENT", `mode is ${mode}, expected one of ${MODES.join(", ")}.`);
    }
    if (typeof folder !== "string" || folder === "") {
      throw new HindsearchError("INVALID_ARGUMENT", "folder must be the path of a folder.");
    }
    this.mode = mode;
    this.#store = new RecordStore(folder);
    const variables = Object.entries(process.env).filter(([name]) => SECRET_VARIABLE.test(name));
    this.#scrubber = new Scrubber([...secrets, ...variables.map(([, value]) => value)]);
  }

  /**
   * The answers to calls: recorded, or made together and recorded.
   *
   * @param kind - A plain word, the folder of such records.
   * @param keys - Of each call all that the answer depends on; JSON.
   * @param make - Makes the calls of these indices of `keys`. The answers must be JSON.
   * @param isFinal - Whether a recorded answer may stand where another can be had (`replay-else-record`). Default: any.
   * @returns In the order of the keys; `undefined` in mode `replay` where there is no record.
   * @throws What `make` throws; that is not recorded. {@link HindsearchError} `IO`.
   */
  async answers<T>(
    kind: string,
    keys: readonly RecordKey[],
    make: (indices: readonly number[]) => Promise<readonly T[]>,
    isFinal: (answer: T) => boolean = () => true,
  ): Promise<(ReplayAnswer<T> | undefined)[]> {
    if (this.mode === "off") {
      const made = await make(keys.map((_, i) => i));
      return made.map((answer) => ({ answer, replayed: false }));
    }
    const names = keys.map((key) => JSON.stringify([kind, key]));
    const answers = new Array<ReplayAnswer<T> | undefined>(keys.length);
    for (let left = keys.map((_, i) => i); left.length > 0; ) {
      const mine = left.filter(
        (i) => !this.#open.has(names[i] as string) && left.find((k) => names[k] === names[i]) === i,
      );
      left = left.filter((i) => !mine.includes(i));
      const calls = mine.map(
        (i): Call => ({ index: i, key: keys[i] as RecordKey, name: names[i] as string }),
      );
      const work = this.#answer(kind, calls, make, isFinal);
      for (const { name } of calls) this.#open.set(name, work);
      try {
        for (const [k, answer] of (await work).entries()) answers[mine[k] as number] = answer;
      } finally {
        for (const { name } of calls) this.#open.delete(name);
      }
      // One that failed, or was aborted by its own caller, leaves the call to the next.
      await Promise.allSettled(left.map((i) => this.#open.get(names[i] as string)));
    }
    return answers;
  }

  /** Name of the run that records; in no other cache, unless it goes on with that run. */
  get run(): string {
    return this.#run;
  }

  /**
   * Goes on as the run of this name: what it has recorded stands.
   *
   * @param run - The `run` of a cache before an interruption.
   */
  goOn(run: string): void {
    this.#run = run;
  }

  /** The counts so far. */
  stats(): ReplayStats {
    return { ...this.#stats };
  }

  async #answer<T>(
    kind: string,
    calls: readonly Call[],
    make: (indices: readonly number[]) => Promise<readonly T[]>,
    isFinal: (answer: T) => boolean,
  ): Promise<(ReplayAnswer<T> | undefined)[]> {
    const records = await Promise.all(calls.map((call) => this.#recorded(kind, call)));
    const stands = ({ name }: Call, record: Recorded | undefined) =>
      record !== undefined &&
      // Within a run an answer stands, even one that is not final.
      (this.#isOwn(name, record) || this.mode === "replay" || isFinal(record.value as T));
    const missing = calls.filter((call, i) => !stands(call, records[i]));
    this.#stats.hits += calls.length - missing.length;
    this.#stats.misses += missing.length;
    const made = new Map<Call, T>();
    if (missing.length > 0 && this.mode !== "replay") {
      const answers = await make(missing.map(({ index }) => index));
      for (const [i, call] of missing.entries()) {
        const replace = this.mode === "record" || records[calls.indexOf(call)] !== undefined;
        const answer = this.#scrubbed(answers[i]);
        const record = { run: this.#run, value: answer };
        made.set(call, (await this.#store.write(kind, call.key, record, replace)) as T);
        this.#written.add(call.name);
        this.#stats.written++;
      }
    }
    return calls.map((call, i) => {
      if (made.has(call)) return { answer: made.get(call) as T, replayed: false };
      return missing.includes(call) ? undefined : { answer: records[i]?.value as T, replayed: true };
    });
  }

  async #recorded(kind: string, { key, name }: Call): Promise<Recorded | undefined> {
    const record = await this.#store.read(kind, key);
    return record && this.mode === "record" && !this.#isOwn(name, record) ? undefined : record;
  }

  #isOwn(name: string, record: Recorded): boolean {
    return this.#written.has(name) || record.run === this.#run;
  }

  /** Secrets in texts, wherever they stand in the answer. */
  #scrubbed(answer: unknown): unknown {
    return JSON.parse(JSON.stringify(answer), (_key, value: unknown) =>
      typeof value === "string" ? this.#scrubber.scrub(value) : value,
    );
  }
}
