import { z } from "zod";
import { parseOptions } from "../network/options.js";
import { CRITIQUE_FAILURES } from "./critique.js";
import { LEAK_POLICIES } from "./leak-guard.js";

const whole = z.int().min(0);
/** Of {@link JudgeCounters}. */
const counts = { calls: whole, failures: z.partialRecord(z.enum(CRITIQUE_FAILURES), whole) };
const leaks = z.partialRecord(
  z.enum(LEAK_POLICIES),
  z.object({ checked: whole, leaked: whole, leakedAgain: whole }),
);
const usage = z.object({ requests: whole, promptTokens: whole, completionTokens: whole, estimated: whole });

/** What a judge that writes critiques counts; of its figures all but latencies, which are of one process. @internal */
export const WriterState = z.object({ ...counts, leaks, usage });
/** What an ensemble counts, and the states of its members; `null` for one without. @internal */
export const EnsembleState = z.object({
  ...counts,
  members: z.array(z.object({ asked: whole, ok: whole, state: z.unknown() })),
});
/** What a judge with a memory counts, the run whose records are its own, and the state of the judge behind it. @internal */
export const RecordedState = z.object({
  ...counts,
  hits: whole,
  run: z.string().min(1),
  state: z.unknown(),
});

/**
 * Checks a state that a judge gave before.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` if it is another judge's.
 * @internal
 */
export function parseState<Schema extends z.ZodType>(
  schema: Schema,
  state: unknown,
  owner: string,
): z.output<Schema> {
  return parseOptions(schema, state, `${owner}.restore`);
}
