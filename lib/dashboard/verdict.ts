import type { MeasureName } from "./measures.js";
import type { Finding, Level, Values, Verdict } from "./messages.js";

/** What the verdict looks at: the measures of the steps, oldest first. */
export type Measured = Readonly<Record<MeasureName, Values>>;

/** Steps that count as now, and as the start. */
const WINDOW = 5;

type Rule = (measured: Measured) => Finding | undefined;

/**
 * Whether the training signal of a run is sound, by rules of thumb over its logged health. Each finding says what was
 * measured and what to do. A run without a judge is looked at as plain GRPO.
 */
export function signalVerdict(measured: Measured): Verdict {
  const findings = RULES.flatMap((rule) => rule(measured) ?? []);
  if (findings.length === 0) {
    return { level: "unknown", title: "No training step yet", findings: [] };
  }
  const level = worst(findings);
  const troubles = findings.filter((finding) => finding.level === level);
  const more = troubles.length > 1 ? ` and ${troubles.length - 1} more` : "";
  const title = level === "good" ? "Signal is healthy" : `${troubles[0]?.title}${more}`;
  return { level, title, findings: findings.sort((a, b) => RANK[b.level] - RANK[a.level]) };
}

const RANK: Readonly<Record<Level, number>> = { unknown: 0, good: 1, watch: 2, bad: 3 };

function worst(findings: readonly Finding[]): Level {
  return findings.reduce<Level>(
    (level, finding) => (RANK[finding.level] > RANK[level] ? finding.level : level),
    "good",
  );
}

const RULES: readonly Rule[] = [
  ({ skipped }) => {
    if (present(skipped).length === 0) return undefined;
    const count = present(skipped).reduce((sum, value) => sum + value, 0);
    if (count === 0) return undefined;
    return {
      id: "skipped",
      level: present(skipped.slice(-WINDOW)).some((value) => value > 0) ? "bad" : "watch",
      title: "Updates were skipped",
      text: `The gradient was not finite in ${count} updates. Lower the learning rate or the weights of the terms.`,
    };
  },
  ({ rolloutGap }) => {
    const largest = most(rolloutGap);
    if (largest === null) return undefined;
    const level = largest > 0.05 ? "bad" : largest > 0.001 ? "watch" : "good";
    return {
      id: "rollout-gap",
      level,
      title: level === "good" ? "Rollout and trainer agree" : "Rollout and trainer disagree",
      text: `Largest difference of a log-prob as sampled and as trained: ${number(largest)} nats.`,
    };
  },
  ({ mixed, allFail, allPass }) => {
    const now = last(mixed);
    if (now === null) return undefined;
    const level = now < 0.1 ? "bad" : now < 0.25 ? "watch" : "good";
    return {
      id: "groups",
      level,
      title: level === "good" ? "Groups differ in reward" : "Few groups have a policy gradient",
      text:
        `${percent(now)} of the last groups are mixed, ${percent(last(allFail))} fail as a whole, ` +
        `${percent(last(allPass))} pass as a whole; only mixed ones have a policy gradient.` +
        (level === "good" ? "" : " Take easier or harder questions, or larger groups."),
    };
  },
  ({ reward }) => {
    const [before, now] = [first(reward), last(reward)];
    if (before === null || now === null || present(reward).length < 2 * WINDOW) return undefined;
    const level = now < before - 0.05 ? "bad" : now < before + 0.01 ? "watch" : "good";
    const title = { good: "Reward rises", watch: "Reward does not rise", bad: "Reward falls" }[level];
    return {
      id: "reward",
      level,
      title,
      text: `Mean reward went from ${number(before)} over the first ${WINDOW} steps to ${number(now)} over the last ${WINDOW}.`,
    };
  },
  ({ entropy }) => {
    const [before, now] = [first(entropy), last(entropy)];
    if (before === null || now === null || before === 0) return undefined;
    const left = now / before;
    const level = left < 0.1 ? "bad" : left < 0.25 || left > 3 ? "watch" : "good";
    const title =
      left > 3
        ? "Entropy grows"
        : { good: "Entropy holds", watch: "Entropy falls", bad: "Entropy collapses" }[level];
    return {
      id: "entropy",
      level,
      title,
      text: `Entropy is ${number(now)} nats a token, ${percent(left)} of that of the start.`,
    };
  },
  ({ kl }) => {
    const now = last(kl);
    if (now === null) return undefined;
    const level = now > 5 ? "bad" : now > 1 ? "watch" : "good";
    return {
      id: "kl",
      level,
      title: level === "good" ? "Near the initial policy" : "Far from the initial policy",
      text: `KL to the frozen initial policy is ${number(now)} nats a token (k3).`,
    };
  },
  ({ searchFailed }) => {
    const now = last(searchFailed);
    if (now === null || now === 0) return undefined;
    return {
      id: "outages",
      level: now > 0.05 ? "bad" : "watch",
      title: "Searches fail",
      text: `${percent(now)} of the last trajectories ended with a failed search; they teach nothing. Look at the retriever.`,
    };
  },
  ({ truncated, noAnswer }) => {
    const now = (last(truncated) ?? 0) + (last(noAnswer) ?? 0);
    if (last(truncated) === null || now < 0.05) return undefined;
    return {
      id: "unanswered",
      level: now > 0.3 ? "bad" : "watch",
      title: "Many trajectories end without an answer",
      text: `${percent(last(truncated))} are truncated and ${percent(last(noAnswer))} end without an answer. Widen the limits or shorten the prompt.`,
    };
  },
  ({ answerInQuery, repeatedQuery }) => {
    const [before, now, repeats] = [first(answerInQuery), last(answerInQuery), last(repeatedQuery) ?? 0];
    if (before === null || now === null) return undefined;
    if (now <= before + 0.2 && repeats <= 0.3) return undefined;
    return {
      id: "queries",
      level: "watch",
      title: repeats > 0.3 ? "Queries repeat" : "Queries hold the answer",
      text: `${percent(repeats)} of the last trajectories ask one query twice; ${percent(now)} put a gold answer into a query, at first ${percent(before)}.`,
    };
  },
  ({ coverage }) => {
    const now = last(coverage);
    if (now === null) return undefined;
    const level = now === 0 ? "bad" : now < 0.01 ? "watch" : "good";
    return {
      id: "coverage",
      level,
      title: level === "good" ? "Distillation reaches the queries" : "Distillation reaches few tokens",
      text: `The term acts on ${percent(now)} of the tokens that the policy wrote.`,
    };
  },
  ({ weight, emptyWeight, shuffledWeight }) => {
    // On measured steps only: the controls are of the same trajectories.
    const at = [...emptyWeight.keys()].filter((i) => emptyWeight[i] !== null && weight[i] !== null).at(-1);
    if (at === undefined) return undefined;
    const [real, empty, shuffled] = [weight[at] ?? 0, emptyWeight[at] ?? 0, shuffledWeight[at] ?? 0];
    const control = Math.max(empty, shuffled);
    const level = real < 1e-4 ? "bad" : real <= control ? "watch" : "good";
    const title = {
      good: "The hint carries content",
      watch: "The hint says no more than a control",
      bad: "The hint changes nothing",
    }[level];
    return {
      id: "hint",
      level,
      title,
      text:
        `Mean weight under the critique ${number(real)}, under another question's ${number(shuffled)}, under an empty ` +
        `hint ${number(empty)}.` +
        (level === "good"
          ? ""
          : " Let the weight of the term decay (distillation.schedule), or look at the critiques."),
    };
  },
  ({ gradientRatio, gradientCosine }) => {
    const now = latest(gradientRatio);
    if (now === null) return undefined;
    const cosine = latest(gradientCosine);
    const level = now > 10 ? "bad" : now > 3 || now < 0.01 || (cosine ?? 0) < -0.5 ? "watch" : "good";
    const title =
      now > 3 ? "Distillation drowns GRPO" : now < 0.01 ? "Distillation is too weak to matter" : undefined;
    return {
      id: "gradients",
      level,
      title: title ?? (level === "good" ? "Terms are in proportion" : "Terms pull against each other"),
      text: `The distillation gradient is ${number(now)} times that of the policy term; cosine ${number(cosine)}.`,
    };
  },
  ({ judgeFailed, judged }) => {
    const now = last(judgeFailed);
    if (now === null) return undefined;
    const level = now > 0.3 ? "bad" : now > 0.05 ? "watch" : "good";
    return {
      id: "judge",
      level,
      title: level === "good" ? "The judge answers" : "The judge fails",
      text: `${percent(now)} of the last calls gave no critique; ${percent(last(judged))} of the failed trajectories have one.`,
    };
  },
  ({ leaked }) => {
    const now = last(leaked);
    if (now === null) return undefined;
    const level = now > 0.1 ? "bad" : now > 0 ? "watch" : "good";
    return {
      id: "leaks",
      level,
      title: level === "good" ? "Critiques keep the answer secret" : "Critiques leak the answer",
      text: `${percent(now)} of the last critiques state a gold answer.${level === "good" ? "" : " See the leak policies of the judge."}`,
    };
  },
];

function present(values: Values): number[] {
  return values.filter((value) => value !== null);
}

function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Mean over the first steps that have the measure. */
function first(values: Values): number | null {
  return mean(present(values).slice(0, WINDOW));
}

/** Mean over the last ones. */
function last(values: Values): number | null {
  return mean(present(values.slice(-WINDOW)));
}

/** The last value, however long ago: some measures are taken every so many steps. */
function latest(values: Values): number | null {
  return present(values).at(-1) ?? null;
}

function most(values: Values): number | null {
  return present(values).reduce<number | null>((most, value) => Math.max(most ?? value, value), null);
}

function number(value: number | null): string {
  return value === null ? "unknown" : String(Number(value.toPrecision(3)));
}

function percent(value: number | null): string {
  return value === null ? "unknown" : `${Number((100 * value).toPrecision(3))} %`;
}
