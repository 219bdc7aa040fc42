import type { MeasureName } from "../measures.js";

/** A line of a chart; runs have colours, lines have dashes. */
export interface PlannedLine {
  label: string;
  measure: MeasureName;
}

/** A chart of measures over training steps. */
export interface PlannedChart {
  title: string;
  unit?: string;
  help: string;
  lines: PlannedLine[];
}

/** @param lines - One measure, or several by what they are called. */
function chart(
  title: string,
  lines: MeasureName | Record<string, MeasureName>,
  help: string,
  unit?: string,
): PlannedChart {
  const named = Object.entries(typeof lines === "string" ? { "": lines } : lines);
  return {
    title,
    help,
    lines: named.map(([label, measure]) => ({ label, measure })),
    ...(unit !== undefined && { unit }),
  };
}

/** The charts below those of evaluations, by heading. Those without a value are left out. */
export const CHART_PLAN: { heading: string; charts: PlannedChart[] }[] = [
  {
    heading: "Learning",
    charts: [
      chart("Training reward", "reward", "Mean reward of the trajectories of a step."),
      chart(
        "Groups",
        { mixed: "mixed", "all fail": "allFail", "all pass": "allPass" },
        "Share of groups by how their rewards relate. Only mixed groups have a policy gradient.",
      ),
    ],
  },
  {
    heading: "Policy",
    charts: [
      chart(
        "KL to the initial policy",
        { all: "kl", queries: "klSearch" },
        "k3 estimate on what was sampled, over all tokens that the policy wrote and over query tokens.",
        "nats per token",
      ),
      chart(
        "Entropy",
        "entropy",
        "Mean of −log p of what was sampled. A fall to zero is a collapse.",
        "nats per token",
      ),
      chart(
        "Log-prob of correct trajectories",
        "correctLogProb",
        "A fall while reward stands still warns of a collapse.",
        "nats per token",
      ),
      chart(
        "Clipped",
        { high: "clipped", low: "clippedLow" },
        "Share of tokens whose probability ratio is clipped.",
      ),
      chart("Gradient norm", "gradientNorm", "Before clipping, mean over the updates of a step."),
      chart("Loss", "loss", "All terms, mean over the updates of a step."),
      chart("Learning rate", "learningRate", "Mean over the updates of a step."),
      chart("Response length", "policyTokens", "Tokens that the policy wrote per trajectory.", "tokens"),
    ],
  },
  {
    heading: "Distillation",
    charts: [
      chart(
        "Coverage",
        "coverage",
        "Tokens of the distillation term as a share of those that the policy wrote.",
      ),
      chart(
        "Gap",
        { critique: "gap", shuffled: "shuffledGap", empty: "emptyGap" },
        "Mean of teacher minus student log-prob on the tokens of the term; under an empty hint and another question's on measured steps.",
        "nats",
      ),
      chart(
        "Weight",
        { critique: "weight", shuffled: "shuffledWeight", empty: "emptyWeight" },
        "Mean of the clamped gap. A critique that says something gives more than the controls.",
      ),
      chart(
        "Gradient: distillation against policy",
        { ratio: "gradientRatio", cosine: "gradientCosine" },
        "Ratio of the norms and cosine between the two, on measured steps.",
      ),
      chart(
        "Where the hint acts",
        { moved: "moved", "full weight": "saturated" },
        "Share of the term's tokens whose log-prob it moves by more than 0.05, and that have full weight.",
      ),
      chart("Distillation loss", "distillLoss", "Mean over the updates of a step."),
      chart("Weight of the term", "distillationWeight", "What the distillation loss is multiplied by."),
    ],
  },
  {
    heading: "Search and judge",
    charts: [
      chart(
        "Searches and turns",
        { searches: "searches", turns: "turns" },
        "Executed searches and turns of the policy.",
        "per trajectory",
      ),
      chart(
        "Queries",
        { "hold the answer": "answerInQuery", repeat: "repeatedQuery" },
        "Share of trajectories that put a gold answer into a query, and that ask one query twice.",
      ),
      chart(
        "Ends",
        { "no answer": "noAnswer", truncated: "truncated", "search failed": "searchFailed" },
        "Share of trajectories that end without an answer, by why.",
      ),
      chart(
        "Judge",
        { critiques: "judged", failed: "judgeFailed", leaked: "leaked" },
        "Share of failed trajectories with a critique, of calls without one, and of critiques that state a gold answer.",
      ),
    ],
  },
  {
    heading: "Speed",
    charts: [
      chart("Step", "stepSeconds", "Wall-clock time of a training step without its evaluation.", "s"),
      chart(
        "Throughput",
        "tokensPerSecond",
        "Tokens written and inserted, over the time of the step.",
        "tokens/s",
      ),
      chart(
        "Rollout",
        "rolloutTokensPerSecond",
        "Tokens that the policy wrote, over the time of the rollout.",
        "tokens/s",
      ),
      chart(
        "Time with a search under way",
        "searchSeconds",
        "Beside the decoding of other trajectories.",
        "s",
      ),
      chart("Latency of the judge", "judgeLatency", "95 % of its calls took no longer.", "s"),
    ],
  },
];

/** Parts of a step, for the split of its time. */
export const TIME_PARTS: { label: string; measure: MeasureName }[] = [
  { label: "rollout", measure: "rolloutSeconds" },
  { label: "judge and reference", measure: "judgeSeconds" },
  { label: "teacher", measure: "teacherSeconds" },
  { label: "update", measure: "updateSeconds" },
];
