import type { Question } from "../data/question.js";
import { HindsearchError } from "../errors.js";
import type { Segment } from "../policy/decoder.js";
import type { Passage } from "../retrieval/passage.js";
import type { ParsedTurn } from "./action.js";
import type { BoundProtocol } from "./bound-protocol.js";
import {
  checkTrajectory,
  type Sampling,
  type SearchRecord,
  type Span,
  type SpanKind,
  type Trajectory,
  type TrajectoryStatus,
} from "./trajectory.js";

/** What a trajectory starts from. */
export interface TrajectoryStart {
  step: number;
  group: number;
  sample: number;
  question: Question;
  promptTokens: Int32Array;
  sampling: Readonly<Sampling>;
  key: Trajectory["key"];
  protocol: BoundProtocol;
}

/** What a turn of the policy asks for. */
export type Turn =
  | { kind: "over"; trajectory: Trajectory }
  | { kind: "search"; query: string }
  | { kind: "invalid"; notice: Int32Array };

/** Writes one trajectory down while it is sampled, and decides by the protocol how it goes on. */
export class TrajectoryRecorder {
  readonly #start: TrajectoryStart;
  readonly #tokens: number[] = [];
  readonly #logProbs: number[] = [];
  readonly #spans: Span[] = [];
  readonly #searches: SearchRecord[] = [];
  /** Ids of the passages that were shown. */
  readonly #shown = new Set<string>();
  #turns = 0;
  #versions: [first: number, last: number] | undefined;

  constructor(start: TrajectoryStart) {
    this.#start = start;
  }

  /** Of its random numbers. */
  get key(): Trajectory["key"] {
    return this.#start.key;
  }

  /** Tokens that the context still has room for. */
  get room(): number {
    const { protocol, promptTokens } = this.#start;
    return Math.max(0, protocol.protocol.maxTokens - promptTokens.length - this.#tokens.length);
  }

  /** Takes in what the policy wrote in one turn. */
  turn(segment: Segment): Turn {
    const { protocol } = this.#start;
    const { maxSearches, maxTurnTokens } = protocol.protocol;
    this.#turns++;
    this.#versions = [this.#versions?.[0] ?? segment.firstVersion, segment.lastVersion];
    const parsed = protocol.parse(segment.tokens);
    const { action } = parsed;
    if (action.kind === "answer") {
      this.#write(segment, parsed.spans);
      return { kind: "over", trajectory: this.#end("answered", undefined, action.text) };
    }
    if (action.kind === "search" && this.#turns <= maxSearches) {
      this.#recordSearch(action.text, parsed);
      this.#write(segment, parsed.spans);
      return { kind: "search", query: action.text };
    }
    this.#write(segment, [{ start: 0, end: segment.tokens.length, kind: "think" }]);
    if (segment.reason === "context" || (segment.reason === "length" && this.room === 0)) {
      return { kind: "over", trajectory: this.truncate("the context is full") };
    }
    if (segment.reason === "length") {
      return { kind: "over", trajectory: this.truncate(`a turn reached ${maxTurnTokens} tokens`) };
    }
    if (!protocol.closedTag(segment)) {
      if (segment.reason === "endToken") {
        return { kind: "over", trajectory: this.#end("no answer", "the policy wrote an end token") };
      }
      throw new HindsearchError(
        "INTERNAL",
        `A segment of trajectory ${this.#id} ended with reason ${segment.reason}, which no rollout asks for.`,
      );
    }
    if (this.#turns > maxSearches) {
      return { kind: "over", trajectory: this.#end("no answer", "the turns were used up") };
    }
    if (protocol.noticeTokens.length >= this.room) {
      return { kind: "over", trajectory: this.truncate("the context is full") };
    }
    this.#insert(protocol.noticeTokens, "notice");
    return { kind: "invalid", notice: protocol.noticeTokens };
  }

  /** Takes in what the last search returned; `undefined` if that does not fit the context. */
  observe(found: readonly Passage[]): Int32Array | undefined {
    const { protocol } = this.#start;
    const search = this.#searches.at(-1) as SearchRecord;
    const { tokens, shown } = protocol.observation(protocol.newPassages(found, this.#shown));
    search.passages = [...shown];
    for (const { id } of shown) this.#shown.add(id);
    if (tokens.length >= this.room) return undefined;
    this.#insert(tokens, "observation");
    return tokens;
  }

  /** Ends the trajectory because the retriever failed. */
  searchFailed(error: Error): Trajectory {
    return this.#end("search failed", error.message);
  }

  /** Ends the trajectory because a length limit was reached. */
  truncate(reason: string): Trajectory {
    return this.#end("truncated", reason);
  }

  get #id(): string {
    const { step, group, sample } = this.#start;
    return `${step}-${group}-${sample}`;
  }

  #recordSearch(query: string, { inner }: ParsedTurn): void {
    const at = this.#tokens.length;
    this.#searches.push({ query, passages: [], start: at + inner.start, end: at + inner.end });
  }

  #write({ tokens, logProbs }: Segment, spans: readonly Span[]): void {
    const at = this.#tokens.length;
    for (const [t, token] of tokens.entries()) {
      this.#tokens.push(token);
      this.#logProbs.push(logProbs[t] as number);
    }
    for (const { start, end, kind } of spans) this.#addSpan(at + start, at + end, kind);
  }

  #insert(tokens: Int32Array, kind: "observation" | "notice"): void {
    const at = this.#tokens.length;
    for (const token of tokens) {
      this.#tokens.push(token);
      this.#logProbs.push(0);
    }
    this.#addSpan(at, this.#tokens.length, kind);
  }

  #addSpan(start: number, end: number, kind: SpanKind): void {
    const last = this.#spans.at(-1);
    if (last?.kind === kind) last.end = end;
    else if (end > start) this.#spans.push({ start, end, kind });
  }

  #end(status: TrajectoryStatus, reason?: string, answer: string | null = null): Trajectory {
    const { step, group, sample, question, promptTokens, sampling, key } = this.#start;
    const trajectory: Trajectory = {
      id: this.#id,
      step,
      group,
      sample,
      question,
      promptTokens,
      tokens: Int32Array.from(this.#tokens),
      logProbs: Float32Array.from(this.#logProbs),
      spans: this.#spans,
      searches: this.#searches,
      answer,
      status,
      ...(reason === undefined ? {} : { reason }),
      turns: this.#turns,
      weightsVersion: this.#versions ?? [0, 0],
      sampling: { ...sampling },
      key,
    };
    checkTrajectory(trajectory, "INTERNAL");
    return trajectory;
  }
}
