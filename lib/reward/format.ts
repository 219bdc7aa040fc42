import { stripSpaces } from "./normalize.js";

/** A stretch of a response with where it comes from. */
export interface ResponsePiece {
  /** Decoded. */
  text: string;
  /** `policy`: sampled; `observation`: what a search returned; `notice`: what follows an invalid action. */
  source: "policy" | "observation" | "notice";
}

/** The tags of a well-formed response. */
export interface FormatTags {
  /** Opening and closing tag of reasoning. */
  think: readonly [open: string, close: string];
  /** Of a query. */
  search: readonly [open: string, close: string];
  /** Of the answer. */
  answer: readonly [open: string, close: string];
}

/** Search-R1's tags. */
export const SEARCH_R1_TAGS: FormatTags = {
  think: ["<think>", "</think>"],
  search: ["<search>", "</search>"],
  answer: ["<answer>", "</answer>"],
};

type State = "ready to think" | "thinking" | "thought" | "searching" | "searched" | "answering" | "answered";

/** Where a tag leads from where it is allowed. */
type Transitions = ReadonlyMap<string, { from: State; to: State }>;

/**
 * Whether a response keeps Search-R1's format: think, then either search, read the observation and think again, or answer and
 * stop. Outside of the tags there is white space only; the last thing is a closed answer.
 *
 * Only the policy's own pieces are parsed. An observation is one step whatever it says, so tags in a passage can neither make
 * nor break the format; a policy that writes its own `<information>` writes text where none may be; a notice is always a
 * breach.
 *
 * @param pieces - The response in order; policy pieces may be cut anywhere.
 * @param tags - Default: {@link SEARCH_R1_TAGS}.
 */
export function isWellFormed(pieces: readonly ResponsePiece[], tags: FormatTags = SEARCH_R1_TAGS): boolean {
  const transitions: Transitions = new Map<string, { from: State; to: State }>([
    [tags.think[0], { from: "ready to think", to: "thinking" }],
    [tags.think[1], { from: "thinking", to: "thought" }],
    [tags.search[0], { from: "thought", to: "searching" }],
    [tags.search[1], { from: "searching", to: "searched" }],
    [tags.answer[0], { from: "thought", to: "answering" }],
    [tags.answer[1], { from: "answering", to: "answered" }],
  ]);
  let state: State | undefined = "ready to think";
  let written = "";
  for (const { text, source } of pieces) {
    if (source === "policy") {
      written += text;
      continue;
    }
    state = advance(state, written, transitions);
    written = "";
    if (source === "notice" || state !== "searched") return false;
    state = "ready to think";
  }
  return advance(state, written, transitions) === "answered";
}

/** The state after the policy wrote `text`; `undefined` if it must not. */
function advance(start: State | undefined, text: string, transitions: Transitions): State | undefined {
  const insideTags: readonly (State | undefined)[] = ["thinking", "searching", "answering"];
  const pattern = [...transitions.keys()].map((tag) => tag.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|");
  let state = start;
  for (const part of text.split(new RegExp(`(${pattern})`))) {
    const transition = transitions.get(part);
    if (transition === undefined) {
      if (stripSpaces(part) !== "" && !insideTags.includes(state)) return undefined;
    } else {
      if (state !== transition.from) return undefined;
      state = transition.to;
    }
  }
  return state;
}
