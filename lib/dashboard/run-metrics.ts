import { pairedDifference } from "../evaluation/paired.js";
import { LineTail } from "../runs/line-tail.js";
import { MEASURES, type MeasureName, numberAt, valueAt } from "./measures.js";
import type { EvaluationPoints, PairedPoints, Values } from "./messages.js";

/** An evaluation as the dashboard keeps it. */
interface Evaluation {
  x: number;
  exactMatch: number | null;
  f1: number | null;
  searches: number | null;
  /** Exact match by question, in order; `NaN` where the search failed. */
  scores: Float32Array;
  /** Of the questions; evaluations on other questions are no pairs. */
  questions: string;
}

/** Evaluations hold a result per question. */
const MAX_LINE_BYTES = 2 ** 25;
/** What is kept of a run, and sent to the page, is bounded whatever the file holds. */
const [MAX_STEPS, MAX_MODES, MAX_EVALUATIONS, MAX_SCORES] = [100_000, 10, 10_000, 2 ** 25];
const NAMES = Object.keys(MEASURES) as MeasureName[];

/** The metrics of a run, read on as they are written. */
export class RunMetrics {
  readonly #tail: LineTail;
  #steps: number[] = [];
  #measures = empty();
  #evaluations = new Map<string, Map<number, Evaluation>>();
  #evaluationCount = 0;
  #scores = 0;
  #broken = 0;
  #leftOut = 0;
  #revision = 0;

  /** @param path - `metrics.jsonl`. */
  constructor(path: string) {
    this.#tail = new LineTail(path, MAX_LINE_BYTES);
  }

  /** Training steps, ascending. */
  get steps(): readonly number[] {
    return this.#steps;
  }

  /** By name, each as long as the steps. */
  get measures(): Readonly<Record<MeasureName, Values>> {
    return this.#measures;
  }

  /** Lines that are no records. */
  get broken(): number {
    return this.#broken;
  }

  /** Records that are more than the dashboard keeps. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** Counts changes. */
  get revision(): number {
    return this.#revision;
  }

  /** How evaluations decoded. */
  get modes(): string[] {
    return [...this.#evaluations.keys()];
  }

  /** Reads what is new. */
  async update(signal?: AbortSignal): Promise<void> {
    const before = this.#tail.position;
    await this.#tail.read(
      {
        line: (bytes) => this.#take(bytes),
        tooLong: () => {
          this.#broken++;
        },
        restart: () => this.#clear(),
      },
      signal,
    );
    if (this.#tail.position !== before) this.#revision++;
  }

  #clear(): void {
    this.#steps = [];
    this.#measures = empty();
    this.#evaluations = new Map();
    this.#evaluationCount = 0;
    this.#scores = 0;
    this.#broken = 0;
    this.#leftOut = 0;
    this.#revision++;
  }

  #take(bytes: Buffer): void {
    let line: unknown;
    try {
      line = JSON.parse(bytes.toString());
    } catch {
      this.#broken++;
      return;
    }
    const kind = valueAt(line, "kind");
    if (kind === "step") this.#takeStep(line);
    else if (kind === "evaluation") this.#takeEvaluation(line);
  }

  #takeStep(line: unknown): void {
    const step = numberAt(line, "step");
    const last = this.#steps.at(-1);
    // A run that resumed writes its steps once; another order is no run.
    if (step === null || (last !== undefined && step <= last)) {
      this.#broken++;
      return;
    }
    if (this.#steps.length >= MAX_STEPS) {
      this.#leftOut++;
      return;
    }
    this.#steps.push(step);
    for (const name of NAMES) this.#measures[name].push(short(MEASURES[name](line)));
  }

  #takeEvaluation(line: unknown): void {
    const x = numberAt(line, "stepsDone");
    const mode = valueAt(line, "mode");
    if (x === null || typeof mode !== "string") {
      this.#broken++;
      return;
    }
    const results = valueAt(line, "results");
    const scores = Array.isArray(results) ? results : [];
    const questions = valueAt(line, "settings.questionsHash");
    const name = mode.slice(0, 40);
    const points = this.#evaluations.get(name) ?? new Map<number, Evaluation>();
    const isMore =
      this.#evaluationCount >= MAX_EVALUATIONS ||
      this.#scores + scores.length > MAX_SCORES ||
      (points.size === 0 && this.#evaluations.size >= MAX_MODES);
    if (isMore) {
      this.#leftOut++;
      return;
    }
    this.#evaluationCount++;
    this.#scores += scores.length;
    this.#evaluations.set(name, points);
    points.set(x, {
      x,
      exactMatch: short(numberAt(line, "exactMatch")),
      f1: short(numberAt(line, "f1")),
      searches: short(numberAt(line, "searches")),
      scores: Float32Array.from(scores, (result) => numberAt(result, "exactMatch") ?? Number.NaN),
      questions: typeof questions === "string" ? questions : "",
    });
  }

  /** The evaluations as curves. */
  evaluations(): EvaluationPoints[] {
    return this.modes.map((mode) => {
      const points = this.#points(mode);
      const intervals = points.map(({ scores, exactMatch }) =>
        wilson(exactMatch, scores.filter((score) => !Number.isNaN(score)).length),
      );
      return {
        mode,
        x: points.map(({ x }) => x),
        exactMatch: points.map(({ exactMatch }) => exactMatch),
        low: intervals.map((interval) => interval?.[0] ?? null),
        high: intervals.map((interval) => interval?.[1] ?? null),
        f1: points.map(({ f1 }) => f1),
        searches: points.map(({ searches }) => searches),
      };
    });
  }

  /**
   * Differences to another run at every evaluation that both made on the same questions, paired by question, with
   * Student's t interval.
   */
  against(base: RunMetrics): PairedPoints[] {
    return this.modes.flatMap((mode) => {
      const others = base.#evaluations.get(mode);
      const pairs = this.#points(mode).flatMap((point) => {
        const other = others?.get(point.x);
        if (other === undefined || other.questions !== point.questions || point.questions === "") return [];
        const both = [...point.scores.keys()].filter(
          (i) => Number.isFinite(point.scores[i]) && Number.isFinite(other.scores[i]),
        );
        if (both.length === 0) return [];
        const scores = (from: Float32Array) => both.map((i) => from[i] as number);
        return [{ x: point.x, ...pairedDifference(scores(point.scores), scores(other.scores)) }];
      });
      if (pairs.length === 0) return [];
      return [
        {
          mode,
          x: pairs.map(({ x }) => x),
          mean: pairs.map((pair) => short(pair.mean)),
          low: pairs.map(({ low }) => short(low)),
          high: pairs.map(({ high }) => short(high)),
          questions: pairs.at(-1)?.n ?? 0,
        },
      ];
    });
  }

  #points(mode: string): Evaluation[] {
    return [...(this.#evaluations.get(mode)?.values() ?? [])].sort((a, b) => a.x - b.x);
  }
}

function empty(): Record<MeasureName, Values> {
  return Object.fromEntries(NAMES.map((name) => [name, []])) as unknown as Record<MeasureName, Values>;
}

/** Six digits are more than a screen shows. */
function short(value: number | null): number | null {
  return value === null ? null : Number(value.toPrecision(6));
}

/** Wilson's score interval of a share at 95 %; unlike the normal one it stays within 0 and 1 and has a width at both ends. */
function wilson(share: number | null, n: number): [low: number, high: number] | undefined {
  if (share === null || n === 0) return undefined;
  const z = 1.959964;
  const scale = 1 + z ** 2 / n;
  const middle = (share + z ** 2 / (2 * n)) / scale;
  const half = (z / scale) * Math.sqrt((share * (1 - share)) / n + z ** 2 / (4 * n ** 2));
  return [Number((middle - half).toPrecision(6)), Number((middle + half).toPrecision(6))];
}
