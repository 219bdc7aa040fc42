import { HindsearchError } from "../errors.js";
import type { PromptSegment } from "../policy/tokenizer.js";
import type { Passage } from "../retrieval/passage.js";

/** An opening and a closing tag. */
export interface TagPair<Tag = string> {
  /** E.g. `<search>`. */
  open: Tag;
  /** E.g. `</search>`. */
  close: Tag;
}

/**
 * How a policy and a search engine talk: the prompt, the tags, the limits and the texts that are inserted.
 *
 * A protocol is plain data and pure functions. What a person wrote is trusted; the question, the hint and the passages
 * are not, and are never encoded to control tokens. A tag that is a token of its own in the tokenizer's list of added
 * tokens is one; otherwise it is text.
 */
export interface SearchProtocol {
  /** For reports. */
  name: string;
  /** The tags of actions and observations. */
  tags: {
    /** Around a query. */
    search: TagPair;
    /** Around what a search returned. */
    information: TagPair;
    /** Around the answer. */
    answer: TagPair;
  };
  /**
   * The user message, or the whole prompt where `chat` is false.
   *
   * @param question - As the data set has it.
   * @param hint - A critique, for the teacher only; it must stand before everything else. `undefined`: the plain prompt.
   */
  prompt(question: string, hint?: string): PromptSegment[];
  /**
   * Whether the prompt goes through the model's chat template as a user message. Where it does not, a BOS token is put
   * first if the tokenizer's files say so.
   */
  chat: boolean;
  /** Turns in which the policy may search; one more follows in which it may only answer. */
  maxSearches: number;
  /** Passages per search. */
  passagesPerSearch: number;
  /** Tokens that the policy may write in one turn. */
  maxTurnTokens: number;
  /** Tokens of one observation, its tags included; the passages are cut to fit, the tags never. */
  maxObservationTokens: number;
  /** Tokens of prompt and trajectory together. */
  maxTokens: number;
  /**
   * Where passages that do not fit are cut: after the last `token` that fits, or after the last `sentence` (Unicode UAX
   * 29; at a token if not even the first one fits).
   */
  cutPassages: "token" | "sentence";
  /**
   * What becomes of a passage, known by its id, that an earlier search of the same trajectory returned: `show` it
   * again, or `skip` it for the next best. To have enough new ones, `skip` asks the retriever for `passagesPerSearch *
   * maxSearches` passages each time.
   */
  repeatedPassages: "show" | "skip";
  /** The text between the information tags. */
  formatPassages(passages: readonly Passage[]): string;
  /** What is put around the information tags. */
  observationFrame: {
    /** In front of the opening tag. */
    before: string;
    /** Behind the closing tag. */
    after: string;
  };
  /** Inserted after a turn without a complete action; may be empty. */
  notice: string;
}

/** The options of {@link searchR1}: any part of the protocol, and the hint's wording. */
export type SearchProtocolOptions = Partial<Omit<SearchProtocol, "prompt" | "tags">> & {
  /** Some of the tags. */
  tags?: Partial<SearchProtocol["tags"]>;
  /** See {@link SearchProtocol.prompt}. */
  prompt?: SearchProtocol["prompt"];
  /** Put before the hint. */
  hintLabel?: string;
};

/** Put before the hint by default. @internal */
export const HINT_LABEL = "Advice on an earlier attempt at this question: ";
const THINK: TagPair = { open: "<think>", close: "</think>" };

/**
 * The protocol of Search-R1 (arXiv:2503.09516) with its limits: 4 searches of 3 passages, 500 tokens a turn and an
 * observation, a context of 4096. The wording of prompt and notice is our own.
 *
 * Two things differ from its rollout loop. A turn that is ended by an end token ends the trajectory, where Search-R1
 * drops the token and inserts the notice; and a trajectory that reaches a length limit is `truncated`, where Search-R1
 * cuts the oldest text off.
 *
 * @param options - What to change.
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` for limits that are no positive integers, unknown choices, and tags
 * that are empty or equal.
 */
export function searchR1(options: SearchProtocolOptions = {}): SearchProtocol {
  const { tags, hintLabel = HINT_LABEL, prompt, ...overrides } = options;
  const search = tags?.search ?? { open: "<search>", close: "</search>" };
  const information = tags?.information ?? { open: "<information>", close: "</information>" };
  const answer = tags?.answer ?? { open: "<answer>", close: "</answer>" };
  const instruction =
    `Answer the question. Whenever you learn something new, first think it over between ${THINK.open} and ` +
    `${THINK.close}. If you miss a piece of knowledge, ask a search engine by writing ${search.open} your query ` +
    `${search.close}; it puts the best passages between ${information.open} and ${information.close}. You may ` +
    "search several times. As soon as you need no more knowledge, write the bare answer, without explanation, " +
    `between ${answer.open} and ${answer.close}, for example ${answer.open} Beijing ${answer.close}. Question: `;
  const protocol: SearchProtocol = {
    name: "search-r1",
    tags: { search, information, answer },
    prompt: prompt ?? ((question, hint) => hintedPrompt(instruction, hintLabel, question, hint)),
    chat: true,
    maxSearches: 4,
    passagesPerSearch: 3,
    maxTurnTokens: 500,
    maxObservationTokens: 500,
    maxTokens: 4096,
    cutPassages: "token",
    repeatedPassages: "show",
    formatPassages: numberedPassages,
    observationFrame: { before: "\n\n", after: "\n\n" },
    notice:
      `\nThat was no valid action. To search I must write the query between ${search.open} and ${search.close}. ` +
      `To answer I must write the answer between ${answer.open} and ${answer.close}. I try again.\n`,
    ...overrides,
  };
  checkProtocol(protocol);
  return protocol;
}

function hintedPrompt(
  instruction: string,
  label: string,
  question: string,
  hint: string | undefined,
): PromptSegment[] {
  const asked = question.trim();
  const segments: PromptSegment[] = [
    { text: instruction, trusted: true },
    { text: asked.endsWith("?") ? asked : `${asked}?`, trusted: false },
    { text: "\n", trusted: true },
  ];
  if (hint === undefined) return segments;
  return [
    { text: label, trusted: true },
    { text: hint, trusted: false },
    { text: "\n\n", trusted: true },
    ...segments,
  ];
}

/** `Doc 1(Title: "...") text`, one passage a line: the form that Search-R1 shows its passages in. */
export function numberedPassages(passages: readonly Passage[]): string {
  return passages.map(({ title, text }, i) => `Doc ${i + 1}(Title: "${title}") ${text.trim()}`).join("\n");
}

/**
 * @throws {@link HindsearchError} `INVALID_ARGUMENT`.
 * @internal
 */
export function checkProtocol(protocol: SearchProtocol): void {
  const limits = [
    "maxSearches",
    "passagesPerSearch",
    "maxTurnTokens",
    "maxObservationTokens",
    "maxTokens",
  ] as const;
  for (const limit of limits) {
    const value = protocol[limit];
    if (Number.isInteger(value) && value >= (limit === "maxSearches" ? 0 : 1)) continue;
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `Protocol ${protocol.name}: ${limit} is ${value}, expected a positive integer.`,
    );
  }
  const choices = { cutPassages: ["token", "sentence"], repeatedPassages: ["show", "skip"] } as const;
  for (const [name, values] of Object.entries(choices)) {
    const value = protocol[name as keyof typeof choices];
    if ((values as readonly string[]).includes(value)) continue;
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `Protocol ${protocol.name}: ${name} is ${JSON.stringify(value)}, expected "${values.join('" or "')}".`,
    );
  }
  const tags = Object.values(protocol.tags).flatMap(({ open, close }) => [open, close]);
  const clash = tags.find((tag, i) => tag === "" || tags.indexOf(tag) !== i);
  if (clash !== undefined) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `Protocol ${protocol.name}: the tag "${clash}" is empty or used twice; every tag needs a text of its own.`,
    );
  }
}
