import type { TagPair } from "./protocol.js";
import type { Span, SpanKind } from "./trajectory.js";

/** A tag as the policy writes it: the bytes of its text, or one control token if the tokenizer has it as one. */
export interface Tag {
  /** E.g. `<search>`. */
  text: string;
  /** The id of the control token; then the same text spelled in ordinary tokens is no tag. */
  id?: number;
}

/** The tags that make an action. */
export interface ActionTags {
  /** Around a query. */
  search: TagPair<Tag>;
  /** Around the answer. */
  answer: TagPair<Tag>;
}

/** What a turn does. */
export type Action =
  | {
      /** What the tags say. */
      kind: "search" | "answer";
      /** What stands between them, trimmed; not empty. */
      text: string;
    }
  | {
      /** No complete action. */
      kind: "none";
    };

/** A turn, parsed. */
export interface ParsedTurn {
  /** What it does. */
  action: Action;
  /** What its tokens are, from 0, covering all of them. */
  spans: Span[];
  /** The tokens strictly inside the action's tags; empty for `none`. */
  inner: Pick<Span, "start" | "end">;
}

/**
 * Finds the action in one turn of the policy.
 *
 * The rule is Search-R1's (arXiv:2503.09516): the action is the first opening tag that has its own closing tag
 * behind it, with everything between the two, trimmed, as its text; an opening tag without one is plain text. A turn
 * stops with its first closing tag (see `stops` in {@link BoundProtocol}), so there is at most one
 * action, and what the last token holds behind the closing tag belongs to nobody: the token stays, its text is not
 * read. An action whose text is empty is none.
 *
 * Token membership is decided on the bytes of the sampled tokens: a token is inside if all of its bytes are, and a
 * token that holds any byte of a tag is `tag`.
 *
 * @param tokens - What the policy sampled in this turn, nothing else: observations are never parsed.
 * @param bytesOf - Bytes of a token; empty for control tokens.
 * @param tags - The tags to look for.
 */
export function parseTurn(
  tokens: Int32Array,
  bytesOf: (token: number) => Uint8Array,
  tags: ActionTags,
): ParsedTurn {
  const text = new TurnText(tokens, bytesOf, tags);
  const found = firstAction(text, tags);
  if (found === undefined) {
    const spans: Span[] = tokens.length === 0 ? [] : [{ start: 0, end: tokens.length, kind: "think" }];
    return { action: { kind: "none" }, spans, inner: { start: 0, end: 0 } };
  }
  const kinds = text.tokenRanges.map(([from, to]): SpanKind => {
    if (from >= found.open[1] && to <= found.close[0]) return found.kind;
    return to <= found.open[0] ? "think" : "tag";
  });
  const first = kinds.indexOf(found.kind);
  // One token can hold tags and text together; the action then has no token of its own.
  const inner =
    first < 0
      ? { start: tokens.length, end: tokens.length }
      : { start: first, end: kinds.lastIndexOf(found.kind) + 1 };
  return { action: { kind: found.kind, text: found.text }, spans: runs(kinds), inner };
}

type Range = [from: number, to: number];

interface FoundAction {
  kind: "search" | "answer";
  text: string;
  open: Range;
  close: Range;
}

function firstAction(text: TurnText, tags: ActionTags): FoundAction | undefined {
  let best: FoundAction | undefined;
  for (const kind of ["search", "answer"] as const) {
    const open = text.find(tags[kind].open, 0);
    const close = open && text.find(tags[kind].close, open[1]);
    if (open === undefined || close === undefined) continue;
    if (best !== undefined && best.open[0] < open[0]) continue;
    best = { kind, open, close, text: text.read(open[1], close[0]).trim() };
  }
  return best === undefined || best.text === "" ? undefined : best;
}

/** Joins equal neighbours. */
function runs(kinds: SpanKind[]): Span[] {
  const spans: Span[] = [];
  kinds.forEach((kind, t) => {
    const last = spans.at(-1);
    if (last?.kind === kind) last.end = t + 1;
    else spans.push({ start: t, end: t + 1, kind });
  });
  return spans;
}

/** The bytes of a turn with the place of every token. */
class TurnText {
  /** Byte range of every token; of length 0 for control tokens that are no tags. */
  readonly tokenRanges: Range[] = [];
  private readonly bytes: Buffer;
  /** Positions that no tag may cross: a stop string does not match across a control token either. */
  private readonly walls = new Set<number>();

  constructor(
    private readonly tokens: Int32Array,
    bytesOf: (token: number) => Uint8Array,
    tags: ActionTags,
  ) {
    const control = new Map<number, Uint8Array>();
    for (const { text, id } of [tags.search, tags.answer].flatMap(({ open, close }) => [open, close])) {
      // A control token has no bytes of its own; its text stands in, so that the tag has a place among the others.
      if (id !== undefined) control.set(id, Buffer.from(text));
    }
    const parts = Array.from(tokens, (token) => control.get(token) ?? bytesOf(token));
    this.bytes = Buffer.concat(parts);
    let at = 0;
    for (const part of parts) {
      this.tokenRanges.push([at, at + part.length]);
      at += part.length;
      if (part.length === 0) this.walls.add(at);
    }
  }

  find(tag: Tag, from: number): Range | undefined {
    return tag.id === undefined ? this.findText(tag.text, from) : this.findToken(tag.id, from);
  }

  read(from: number, to: number): string {
    return this.bytes.toString("utf8", from, to);
  }

  private findText(text: string, from: number): Range | undefined {
    const length = Buffer.byteLength(text);
    for (let at = this.bytes.indexOf(text, from); at >= 0; at = this.bytes.indexOf(text, at + 1)) {
      if (!this.crossesWall(at, at + length)) return [at, at + length];
    }
    return undefined;
  }

  private crossesWall(from: number, to: number): boolean {
    for (const wall of this.walls) if (from < wall && wall < to) return true;
    return false;
  }

  private findToken(id: number, from: number): Range | undefined {
    for (let t = 0; t < this.tokens.length; t++) {
      const range = this.tokenRanges[t];
      if (this.tokens[t] === id && range !== undefined && range[0] >= from) return range;
    }
    return undefined;
  }
}
