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

const one = (title: string, measure: MeasureName, help: string, unit?: string): PlannedChart => ({
  title,
  help,
  lines: [{ label: "", measure }],
  ...(unit !== undefined && { unit }),
});

/** The charts below those of evaluations, by heading. Those without a value are left out. */
export const CHART_PLAN: { heading: string; charts: PlannedChart[] }[] = [
  {
    heading: "Learning",
    charts: [
      one("Training reward", "reward", "Mean reward of the trajectories of a step."),
      {
        title: "Groups",
        help: "Share of groups by how their rewards relate. Only mixed groups have a policy gradient.",
        lines: [
          { label: "mixed", measure: "mixed" },
          { label: "all fail", measure: "allFail" },
          { label: "all pass", measure: "allPass" },
        ],
      },
    ],
  },
  {
    heading: "Policy",
    charts: [
      {
        title: "KL to the initial policy",
        unit: "nats per token",
        help: "k3 estimate on what was sampled, over all tokens that the policy wrote and over query tokens.",
        lines: [
          { label: "all", measure: "kl" },
          { label: "queries", measure: "klSearch" },
        ],
      },
      one(
        "Entropy",
        "entropy",
        "Mean of −log p of what was sampled. A fall to zero is a collapse.",
        "nats per token",
      ),
      one(
        "Log-prob of correct trajectories",
        "correctLogProb",
        "A fall while reward stands still warns of a collapse.",
        "nats per token",
      ),
      {
        title: "Clipped",
        help: "Share of tokens whose probability ratio is clipped.",
        lines: [
          { label: "high", measure: "clipped" },
          { label: "low", measure: "clippedLow" },
        ],
      },
      one("Gradient norm", "gradientNorm", "Before clipping, mean over the updates of a step."),
      one("Loss", "loss", "All terms, mean over the updates of a step."),
      one("Learning rate", "learningRate", "Mean over the updates of a step."),
      one("Response length", "policyTokens", "Tokens that the policy wrote per trajectory.", "tokens"),
    ],
  },
  {
    heading: "Distillation",
    charts: [
      one(
        "Coverage",
        "coverage",
        "Tokens of the distillation term as a share of those that the policy wrote.",
      ),
      {
        title: "Gap",
        unit: "nats",
        help: "Mean of teacher minus student log-prob on the tokens of the term; under an empty hint and another question's on measured steps.",
        lines: [
          { label: "critique", measure: "gap" },
          { label: "shuffled", measure: "shuffledGap" },
          { label: "empty", measure: "emptyGap" },
        ],
      },
      {
        title: "Weight",
        help: "Mean of the clamped gap. A critique that says something gives more than the controls.",
        lines: [
          { label: "critique", measure: "weight" },
          { label: "shuffled", measure: "shuffledWeight" },
          { label: "empty", measure: "emptyWeight" },
        ],
      },
      {
        title: "Gradient: distillation against policy",
        help: "Ratio of the norms and cosine between the two, on measured steps.",
        lines: [
          { label: "ratio", measure: "gradientRatio" },
          { label: "cosine", measure: "gradientCosine" },
        ],
      },
      {
        title: "Where the hint acts",
        help: "Share of the term's tokens whose log-prob it moves by more than 0.05, and that have full weight.",
        lines: [
          { label: "moved", measure: "moved" },
          { label: "full weight", measure: "saturated" },
        ],
      },
      one("Distillation loss", "distillLoss", "Mean over the updates of a step."),
      one("Weight of the term", "distillationWeight", "What the distillation loss is multiplied by."),
    ],
  },
  {
    heading: "Search and judge",
    charts: [
      {
        title: "Searches and turns",
        unit: "per trajectory",
        help: "Executed searches and turns of the policy.",
        lines: [
          { label: "searches", measure: "searches" },
          { label: "turns", measure: "turns" },
        ],
      },
      {
        title: "Queries",
        help: "Share of trajectories that put a gold answer into a query, and that ask one query twice.",
        lines: [
          { label: "hold the answer", measure: "answerInQuery" },
          { label: "repeat", measure: "repeatedQuery" },
        ],
      },
      {
        title: "Ends",
        help: "Share of trajectories that end without an answer, by why.",
        lines: [
          { label: "no answer", measure: "noAnswer" },
          { label: "truncated", measure: "truncated" },
          { label: "search failed", measure: "searchFailed" },
        ],
      },
      {
        title: "Judge",
        help: "Share of failed trajectories with a critique, of calls without one, and of critiques that state a gold answer.",
        lines: [
          { label: "critiques", measure: "judged" },
          { label: "failed", measure: "judgeFailed" },
          { label: "leaked", measure: "leaked" },
        ],
      },
    ],
  },
  {
    heading: "Speed",
    charts: [
      one("Step", "stepSeconds", "Wall-clock time of a training step without its evaluation.", "s"),
      one(
        "Throughput",
        "tokensPerSecond",
        "Tokens written and inserted, over the time of the step.",
        "tokens/s",
      ),
      one(
        "Rollout",
        "rolloutTokensPerSecond",
        "Tokens that the policy wrote, over the time of the rollout.",
        "tokens/s",
      ),
      one("Time with a search under way", "searchSeconds", "Beside the decoding of other trajectories.", "s"),
      one("Latency of the judge", "judgeLatency", "95 % of its calls took no longer.", "s"),
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
