import type { RunCurves, RunSummary } from "../messages.js";

/** A run that is drawn. */
export interface DrawnRun {
  summary: RunSummary;
  curves: RunCurves;
  /** Its name among the others: what they have in common is left out. */
  name: string;
  color: number;
}
