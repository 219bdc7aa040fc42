import { z } from "zod";
import type { Span, Trajectory } from "../agent/trajectory.js";
import { trajectoryFromJson } from "../agent/trajectory-json.js";
import { HindsearchError } from "../errors.js";
import { type AnswerFinder, answerFinder } from "./answer-finder.js";
import type {
  MarkedText,
  PartView,
  PassageView,
  TokenView,
  TrajectoryRow,
  TrajectoryView,
} from "./messages.js";

const column = z.array(z.number()).optional();

/** What training adds to a trajectory. Each part that is damaged is left out. */
const Extras = z.object({
  pieces: z.array(z.string()).optional().catch(undefined),
  components: z.record(z.string(), z.unknown()).catch({}),
  signal: z
    .object({ tokens: z.array(z.int().min(0)), teacher: column, reference: column, weights: column })
    .optional()
    .catch(undefined),
  critique: z
    .object({
      status: z.string(),
      text: z.string().optional(),
      reason: z.string().optional(),
      raw: z.string().optional(),
    })
    .optional()
    .catch({ status: "unreadable" }),
});

/** Characters of a text, and tokens of a part, that are sent: a page of more is read by nobody and slow in the browser. */
const MAX_TEXT = 20_000;
const MAX_TOKENS = 2_000;

/**
 * A trajectory as the page shows it.
 *
 * @param json - Its line.
 * @param row - Its row.
 * @param siblings - Rows of its group.
 * @throws {@link HindsearchError} `INVALID_DATA` if the line is no trajectory.
 */
export function trajectoryView(
  json: unknown,
  row: TrajectoryRow,
  siblings: readonly TrajectoryRow[],
): TrajectoryView {
  const trajectory = read(json);
  const { pieces, components, signal, critique } = Extras.parse(json);
  const { question, goldAnswers, metadata, id } = trajectory.question;
  const finder = answerFinder(goldAnswers, question);
  const mark = (text: string) => markAnswers(text, finder);
  const texts = textsOf(trajectory, pieces);
  const tokens = tokensOf(trajectory, texts, signal);
  return {
    row,
    question: {
      id: clip(id),
      text: clip(question),
      gold: goldAnswers.slice(0, 100).map(clip),
      metadata: metadata === undefined ? null : clip(JSON.stringify(metadata)),
    },
    answer: trajectory.answer === null ? null : clip(trajectory.answer),
    reason: trajectory.reason === undefined ? null : clip(trajectory.reason),
    components: Object.entries(components)
      .slice(0, 20)
      .map(([name, value]) => [clip(name), typeof value === "number" ? value : null]),
    turns: turnsOf(trajectory, { texts, tokens, scored: new Set(signal?.tokens), mark }),
    critique:
      critique === undefined
        ? null
        : critique.status === "ok"
          ? { status: "ok", text: mark(critique.text ?? ""), raw: rawOf(critique.raw) }
          : { status: clip(critique.status), reason: clip(critique.reason ?? ""), raw: rawOf(critique.raw) },
    siblings: [...siblings],
    facts: factsOf(trajectory),
    hasTexts: texts !== undefined,
  };
}

function read(json: unknown): Trajectory {
  try {
    return trajectoryFromJson(json);
  } catch (cause) {
    throw new HindsearchError("INVALID_DATA", (cause as Error).message, { cause });
  }
}

/** Text by token, `undefined` for those that were inserted; nothing at all if the run did not record it. */
function textsOf({ tokens, spans }: Trajectory, pieces: readonly string[] | undefined) {
  if (pieces === undefined) return undefined;
  const texts = new Array<string | undefined>(tokens.length);
  let next = 0;
  for (const { start, end, kind } of spans) {
    if (isInserted(kind)) continue;
    for (let t = start; t < end; t++) texts[t] = pieces[next++] ?? "";
  }
  return texts;
}

function isInserted(kind: Span["kind"]): boolean {
  return kind === "observation" || kind === "notice";
}

function tokensOf(
  { tokens, logProbs }: Trajectory,
  texts: readonly (string | undefined)[] | undefined,
  signal: z.output<typeof Extras>["signal"],
): (t: number) => TokenView {
  const places = new Map(signal?.tokens.map((t, i) => [t, i]));
  const of = (values: readonly number[] | undefined, t: number) => {
    const place = places.get(t);
    return place === undefined ? null : (values?.[place] ?? null);
  };
  return (t) => ({
    text: texts === undefined ? null : clip(texts[t] ?? ""),
    id: tokens[t] as number,
    student: logProbs[t] as number,
    teacher: of(signal?.teacher, t),
    reference: of(signal?.reference, t),
    weight: of(signal?.weights, t),
  });
}

interface Sources {
  texts: readonly (string | undefined)[] | undefined;
  tokens: (t: number) => TokenView;
  scored: ReadonlySet<number>;
  mark: (text: string) => MarkedText;
}

/** A turn ends with what was inserted behind it. */
function turnsOf(trajectory: Trajectory, sources: Sources): PartView[][] {
  const turns: PartView[][] = [[]];
  const searches = trajectory.searches.map((search, i) => ({
    search,
    repeated: trajectory.searches.slice(0, i).some(({ query }) => query === search.query),
  }));
  let next = 0;
  const addSearches = (before: number) => {
    for (
      let found = searches[next];
      found !== undefined && found.search.start < before;
      found = searches[++next]
    ) {
      const { search, repeated } = found;
      turns.at(-1)?.push({
        kind: "search",
        query: sources.mark(search.query),
        tokens: range(search.start, search.end).map(sources.tokens),
        passages: search.passages.slice(0, 100).map((passage) => passageView(passage, sources.mark)),
        repeated,
      });
    }
  };
  for (const span of trajectory.spans) {
    if (isInserted(span.kind)) {
      addSearches(span.start + 1);
      turns.at(-1)?.push({ kind: span.kind as "observation" | "notice", tokens: span.end - span.start });
      turns.push([]);
      continue;
    }
    if (span.kind === "search") addSearches(span.end);
    else turns.at(-1)?.push(writtenPart(span, trajectory, sources));
  }
  addSearches(Number.POSITIVE_INFINITY);
  return turns.filter((parts) => parts.length > 0);
}

function writtenPart({ start, end, kind }: Span, { answer }: Trajectory, sources: Sources): PartView {
  const { texts, tokens, scored } = sources;
  const all = range(start, end);
  const text = texts === undefined ? null : all.map((t) => texts[t] ?? "").join("");
  return {
    kind: kind as "think" | "answer" | "tag",
    text: text === null ? (kind === "answer" && answer !== null ? clip(answer) : null) : clip(text),
    tokens: all.some((t) => scored.has(t)) ? all.map(tokens) : null,
  };
}

function passageView(
  { id, title, text, score }: { id: string; title: string; text: string; score?: number },
  mark: (text: string) => MarkedText,
): PassageView {
  const marked = { title: mark(title), text: mark(text) };
  const gold = marked.title.length > 1 || marked.text.length > 1;
  return { id: clip(id), ...marked, score: score ?? null, gold };
}

/** The text cut where gold answers start and end. */
function markAnswers(text: string, finder: AnswerFinder): MarkedText {
  const shown = clip(text);
  const marked: MarkedText = [];
  let from = 0;
  for (const { start, end } of finder.find(shown)) {
    marked.push(shown.slice(from, start), shown.slice(start, end));
    from = end;
  }
  marked.push(shown.slice(from));
  return marked;
}

function factsOf({
  sampling,
  weightsVersion,
  turns,
  promptTokens,
  tokens,
  key,
}: Trajectory): [string, string][] {
  return [
    ["Turns", String(turns)],
    ["Tokens", `${promptTokens.length} of the prompt, ${tokens.length} after it`],
    [
      "Weights",
      weightsVersion[0] === weightsVersion[1]
        ? `version ${weightsVersion[0]}`
        : `versions ${weightsVersion.join(" to ")}`,
    ],
    [
      "Sampling",
      Object.entries(sampling)
        .slice(0, 8)
        .map(([name, value]) => `${name} ${value}`)
        .join(", "),
    ],
    ["Random stream", `seed ${key.seed}, stream ${key.stream}`],
  ];
}

function range(start: number, end: number): number[] {
  return Array.from({ length: Math.max(0, Math.min(end - start, MAX_TOKENS)) }, (_, i) => start + i);
}

function rawOf(raw: string | undefined): string | null {
  return raw === undefined ? null : clip(raw);
}

function clip(text: string): string {
  if (text.length <= MAX_TEXT) return text;
  return `${text.slice(0, MAX_TEXT)}… [${text.length - MAX_TEXT} more characters]`;
}
