/** What the server tells the page, as JSON. Types alone: both sides import them. */

/** Points of a line of a chart: one value per x, `null` where there is none. */
export type Values = (number | null)[];

/** A share of questions with a 95 % interval. */
export interface EvaluationPoints {
  /** How it decoded. */
  mode: string;
  /** Training steps done. */
  x: number[];
  exactMatch: Values;
  /** Ends of the Wilson interval of the exact match. */
  low: Values;
  high: Values;
  f1: Values;
  searches: Values;
}

/** The curves of a run. */
export interface RunCurves {
  run: string;
  /** Changes whenever the curves do. */
  revision: string;
  /** Training steps, ascending. */
  steps: number[];
  /** By id of the measure, each as long as `steps`. */
  measures: Record<string, Values>;
  evaluations: EvaluationPoints[];
}

/** How grave a finding is. */
export type Level = "good" | "watch" | "bad" | "unknown";

/** One thing that the verdict looked at. */
export interface Finding {
  id: string;
  level: Level;
  title: string;
  /** What was found, with its numbers, and what to do. */
  text: string;
}

/** Whether a run's training signal is sound. */
export interface Verdict {
  /** The worst of the findings. */
  level: Level;
  /** In a few words. */
  title: string;
  findings: Finding[];
}

/** A run in the overview. */
export interface RunSummary {
  /** Path below the folder that is served; the name in addresses. */
  id: string;
  /** Training steps done and to do; `null` where the settings do not say. */
  stepsDone: number;
  steps: number | null;
  /** Seconds since something was last logged. */
  idleSeconds: number;
  /** Whether it grew within the last minute and has steps to do. */
  live: boolean;
  /** Milliseconds of its training steps. */
  milliseconds: number;
  method: string;
  policy: string;
  seed: string;
  /** The same for runs that differ in nothing but their seed. */
  settings: string;
  reward: number | null;
  /** Last exact match by mode, and the first. */
  exactMatch: {
    mode: string;
    first: number | null;
    last: number | null;
    low: number | null;
    high: number | null;
  }[];
  verdict: Verdict;
  /** What could not be read. */
  problems: string[];
  /** Changes whenever the curves do. */
  revision: string;
}

/** `GET /api/runs`. */
export interface RunsReply {
  folder: string;
  version: string;
  runs: RunSummary[];
}

/** The difference between two runs on the questions that both answered. */
export interface PairedPoints {
  mode: string;
  x: number[];
  /** Mean of `run - base`. */
  mean: Values;
  low: Values;
  high: Values;
  /** Questions of the last point. */
  questions: number;
}

/** `GET /api/compare`: every run against the base. */
export interface CompareReply {
  base: string;
  pairs: { run: string; differences: PairedPoints[] /** Why there is none. */; reason: string | null }[];
}

/** How the rewards of a group relate; see the training layer. */
export type Outcome = "mixed" | "all-fail" | "all-pass" | "unscored";

/** A trajectory in the list. Texts are cut to what a list shows. */
export interface TrajectoryRow {
  id: string;
  step: number;
  group: number;
  sample: number;
  question: string;
  gold: string;
  answer: string | null;
  status: string;
  reward: number | null;
  advantage: number | null;
  failed: boolean;
  outcome: Outcome;
  /** Status of the critique; `null` without. */
  critique: string | null;
  /** Whether the critique, or a query, states the gold answer. */
  leaked: "critique" | "query" | null;
  /** Whether a passage states the gold answer. */
  found: boolean;
  repeated: boolean;
  searches: number;
  turns: number;
  tokens: number;
  /** Mean distillation weight over the tokens of the scope; `null` without teacher. */
  weight: number | null;
}

/** `GET /api/trajectories`: a page of those that match. */
export interface RowsReply {
  /** In the run. */
  total: number;
  matched: number;
  offset: number;
  rows: TrajectoryRow[];
  /** Where the trajectory asked for stands among those that match. */
  located: number | null;
  /** Share of the file that is indexed, 0 to 1. */
  indexed: number;
  /** Lines that are no trajectories. */
  unreadable: number;
  revision: string;
}

/** Text with marks: what stands at an odd place is marked. */
export type MarkedText = string[];

/** A token of a scope. Log-probs in nats. */
export interface TokenView {
  /** `null` where the run did not record texts. */
  text: string | null;
  id: number;
  student: number;
  teacher: number | null;
  reference: number | null;
  /** Clamped gap between teacher and student: the weight in the loss, before that of the term. */
  weight: number | null;
}

/** A passage as it was shown. */
export interface PassageView {
  id: string;
  title: MarkedText;
  text: MarkedText;
  score: number | null;
  /** Whether it states a gold answer. */
  gold: boolean;
}

/** A piece of a turn. */
export type PartView =
  | { kind: "think" | "answer" | "tag"; text: string | null; tokens: TokenView[] | null }
  | {
      kind: "search";
      query: MarkedText;
      tokens: TokenView[];
      /** The passages; empty if nothing was found. */
      passages: PassageView[];
      repeated: boolean;
    }
  | { kind: "observation" | "notice"; tokens: number };

/** `GET /api/trajectory`. */
export interface TrajectoryView {
  row: TrajectoryRow;
  question: { id: string; text: string; gold: string[]; metadata: string | null };
  answer: string | null;
  reason: string | null;
  components: [name: string, value: number | null][];
  turns: PartView[][];
  critique:
    | { status: "ok"; text: MarkedText; raw: string | null }
    | { status: string; reason: string; raw: string | null }
    | null;
  /** The trajectories of the group, in order. */
  siblings: TrajectoryRow[];
  facts: [name: string, value: string][];
  /** Whether the run recorded the text of every token. */
  hasTexts: boolean;
}

/** What a report holds: all that the page would ask a server for. */
export interface Report {
  made: string;
  runs: RunsReply;
  curves: RunCurves[];
  compare: CompareReply[];
  /** By run. */
  trajectories: Record<string, { views: TrajectoryView[]; total: number }>;
  configs: Record<string, string>;
}
