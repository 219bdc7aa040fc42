import { expect } from "vitest";
import { policyMask, scopeMask } from "../../lib/agent/masks.js";
import type { SearchProtocol, TagPair } from "../../lib/agent/protocol.js";
import { type Trajectory, trajectoryLength } from "../../lib/agent/trajectory.js";
import type { Tokenizer } from "../../lib/policy/tokenizer.js";
import type { Passage } from "../../lib/retrieval/passage.js";

/** What a trajectory is checked against. */
export interface Truth {
  protocol: SearchProtocol;
  tokenizer: Tokenizer;
  eosTokenIds: readonly number[];
  /** What the retriever returned for a query. */
  found(query: string): readonly Passage[] | undefined;
}

/** Tokens `[start, end)` that one side wrote in one go. */
interface Run {
  inserted: boolean;
  start: number;
  end: number;
}

/**
 * Reads a trajectory anew, from its tokens, and expects everything that it says about itself to be so: spans, masks,
 * log-probs, searches with their observations, answer, status. Tags must be text, and the notice not empty.
 */
export function expectTruthful(trajectory: Trajectory, truth: Truth): void {
  const { protocol, tokenizer, eosTokenIds } = truth;
  const { id, tokens, logProbs, searches, status, turns } = trajectory;
  const text = ({ start, end }: Run) => tokenizer.decode(tokens.subarray(start, end));
  const runs = runsOf(trajectory);
  expect(logProbs.length, id).toBe(tokens.length);
  expectMasks(trajectory, runs);

  const written = runs.filter(({ inserted }) => !inserted);
  expect(written.length, id).toBe(turns);
  expect(runs.length - written.length, id).toBeLessThan(turns);
  let searched = 0;
  for (const [turn, run] of written.entries()) {
    const { start, end } = run;
    expect(end - start, id).toBeLessThanOrEqual(protocol.maxTurnTokens);
    expectLogProbs(logProbs.subarray(start, end), id);
    const action = actionOf(text(run), protocol);
    const next = runs[runs.indexOf(run) + 1];
    if (action?.kind === "answer") {
      expect({ next, status, answer: trajectory.answer }, id).toEqual({
        next: undefined,
        status: "answered",
        answer: action.text,
      });
      expect(searches.length, id).toBe(searched);
      return;
    }
    if (action?.kind === "search" && turn < protocol.maxSearches) {
      const search = searches[searched++];
      expect(search?.query, id).toBe(action.text);
      const found = truth.found(action.text);
      const shown = search?.passages ?? [];
      expect(found?.slice(0, shown.length), id).toEqual(shown);
      // A token of the query can start or end inside a character.
      const inside = text({ ...run, ...search }).replace(/^\ufffd+|\ufffd+$/g, "");
      expect(action.text, id).toContain(inside.trim());
      // What the limit cut off as a whole was not shown.
      if (next && next.end - next.start < protocol.maxObservationTokens) expect(shown, id).toEqual(found);
      if (next) expectObservation(trajectory, next, shown, truth);
      else expect(status, id).toBe("truncated");
    } else if (next) {
      expect(closes(text(run), protocol), id).toBe(true);
      expect(text(next), id).toContain(protocol.notice.trim());
      expectKind(trajectory, next, "notice", truth);
    } else {
      expectEnd(trajectory, run, text(run), protocol, eosTokenIds);
    }
  }
  expect(searches.length, id).toBe(searched);
  expect(trajectory.answer, id).toBe(null);
  if (runs.at(-1)?.inserted) expect(status, id).toBe("truncated");
}

/** Neighbouring spans of one side, joined; expects the spans to cover all tokens. */
function runsOf({ id, tokens, spans }: Trajectory): Run[] {
  const runs: Run[] = [];
  let at = 0;
  for (const { start, end, kind } of spans) {
    expect(start, id).toBe(at);
    expect(end, id).toBeGreaterThan(start);
    at = end;
    const inserted = kind === "observation" || kind === "notice";
    const last = runs.at(-1);
    if (last?.inserted === inserted) last.end = end;
    else runs.push({ inserted, start, end });
  }
  expect(at, id).toBe(tokens.length);
  return runs;
}

function expectMasks(trajectory: Trajectory, runs: readonly Run[]): void {
  const { id, tokens, logProbs, searches } = trajectory;
  const policy = new Uint8Array(tokens.length);
  const search = new Uint8Array(tokens.length);
  for (const { inserted, start, end } of runs) {
    if (inserted) expect([...new Set(logProbs.subarray(start, end))], id).toEqual([0]);
    else policy.fill(1, start, end);
  }
  for (const { start, end } of searches) search.fill(1, start, end);
  expect(policyMask(trajectory), id).toEqual(policy);
  expect(scopeMask(trajectory, "search"), id).toEqual(search);
}

function expectLogProbs(logProbs: Float32Array, id: string): void {
  for (const logProb of logProbs) {
    expect(logProb, id).toBeLessThanOrEqual(0);
    expect(logProb, id).toBeGreaterThan(-1000);
  }
}

function expectKind({ id, tokens, spans }: Trajectory, run: Run, kind: string, { tokenizer }: Truth): void {
  expect(spans, id).toContainEqual({ start: run.start, end: run.end, kind });
  const control = tokens.subarray(run.start, run.end).filter((token) => tokenizer.isControl(token));
  expect([...control], id).toEqual([]);
}

function expectObservation(
  trajectory: Trajectory,
  run: Run,
  passages: readonly Passage[],
  truth: Truth,
): void {
  const { protocol, tokenizer } = truth;
  const { id, tokens } = trajectory;
  expectKind(trajectory, run, "observation", truth);
  const { before, after } = protocol.observationFrame;
  const { open, close } = protocol.tags.information;
  // A tokenizer of the SentencePiece kind puts spaces between the parts.
  const text = tokenizer.decode(tokens.subarray(run.start, run.end)).trimStart();
  const opening = (before + open).trimStart();
  expect(text.startsWith(opening) && text.endsWith(close + after), `${id}: ${text}`).toBe(true);
  const shown = text.slice(opening.length, text.length - (close + after).length).trim();
  const whole = protocol.formatPassages(passages).normalize("NFC").trim();
  if (run.end - run.start < protocol.maxObservationTokens) {
    expect(shown, id).toBe(whole);
    return;
  }
  expect(run.end - run.start, id).toBe(protocol.maxObservationTokens);
  // A character may be cut in half.
  const start = shown.replace(/\ufffd+$/, "");
  expect(start.length, id).toBeGreaterThan(0);
  expect(whole.startsWith(start), `${id}: ${start}`).toBe(true);
}

/** The end of a trajectory without an answer. */
function expectEnd(
  trajectory: Trajectory,
  run: Run,
  text: string,
  { maxSearches, maxTurnTokens, maxTokens, ...protocol }: SearchProtocol,
  eosTokenIds: readonly number[],
): void {
  const { id, tokens, status, reason, turns } = trajectory;
  const ended = eosTokenIds.includes(tokens[run.end - 1] as number);
  const spent = turns > maxSearches && closes(text, protocol);
  expect(reason, id).toEqual(expect.any(String));
  expect(status, id).toBe(ended || spent ? "no answer" : "truncated");
  if (ended || spent) return;
  const full = trajectoryLength(trajectory) >= maxTokens || closes(text, protocol);
  expect(full || run.end - run.start === maxTurnTokens, id).toBe(true);
}

function closes(text: string, { tags }: Pick<SearchProtocol, "tags">): boolean {
  return text.includes(tags.search.close) || text.includes(tags.answer.close);
}

function actionOf(text: string, { tags }: SearchProtocol) {
  const found = (["search", "answer"] as const).flatMap((kind) => {
    const { open, close }: TagPair = tags[kind];
    const start = text.indexOf(open);
    const end = start < 0 ? -1 : text.indexOf(close, start + open.length);
    return end < 0 ? [] : [{ kind, start, text: text.slice(start + open.length, end).trim() }];
  });
  const [first] = found.sort((a, b) => a.start - b.start);
  return first?.text ? first : undefined;
}
