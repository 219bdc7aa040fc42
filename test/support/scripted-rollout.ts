import { expect } from "vitest";
import { BoundProtocol } from "../../lib/agent/bound-protocol.js";
import { type SearchProtocolOptions, searchR1 } from "../../lib/agent/protocol.js";
import { type RolloutOptions, rollout } from "../../lib/agent/rollout.js";
import { checkTrajectory, type Trajectory } from "../../lib/agent/trajectory.js";
import type { Question } from "../../lib/data/question.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import { byteTokenizer } from "./byte-tokenizer.js";
import { type Script, ScriptedDecoder } from "./scripted-decoder.js";

/** A token a byte, and one that ends. */
export const tokenizer = byteTokenizer();
export const END = 256;

/** Search-R1 without a chat template, with room for any text. */
export function bound(options: SearchProtocolOptions = {}): BoundProtocol {
  const protocol = searchR1({ chat: false, notice: "\n[invalid]\n", maxTokens: 100_000, ...options });
  return new BoundProtocol(protocol, { tokenizer, eosTokenIds: [END] });
}

export const question = (text: string): Question => ({ id: text, question: text, goldAnswers: ["gold"] });
/** Finds one passage for every query. */
export const engine = async (queries: readonly string[]) =>
  queries.map((query): Passage[] => [{ id: query, title: "T", text: `about ${query}` }]);

/** A rollout of a script, which leaves no sequence behind and whose trajectories do not contradict themselves. */
export async function run(script: Script, options: Partial<RolloutOptions> = {}) {
  const decoder = new ScriptedDecoder(tokenizer, script);
  const result = await rollout({
    decoder,
    retriever: { search: engine },
    protocol: bound(),
    questions: [question("Who?")],
    ...options,
  });
  expect(decoder.sequences.size, "sequences left behind").toBe(0);
  for (const trajectory of result.groups.flat()) checkTrajectory(trajectory, "INTERNAL");
  return { ...result, decoder };
}

/** `kind:text` of every span. */
export function spans({ tokens, spans }: Trajectory): string[] {
  return spans.map(({ start, end, kind }) => `${kind}:${tokenizer.decode(tokens.subarray(start, end))}`);
}

/** The trajectory of a rollout that has one. */
export const only = ({ groups }: { groups: Trajectory[][] }) => groups[0]?.[0] as Trajectory;
