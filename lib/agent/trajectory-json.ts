import { z } from "zod";
import { HindsearchError } from "../errors.js";
import { checkTrajectory, type Trajectory } from "./trajectory.js";

/**
 * A trajectory as a plain object for one JSON line: typed arrays become arrays, the key's numbers strings.
 * Log-probs keep nine digits, which is enough to read the same 32-bit floats back.
 */
export function trajectoryToJson(trajectory: Trajectory): Record<string, unknown> {
  return {
    ...trajectory,
    promptTokens: Array.from(trajectory.promptTokens),
    tokens: Array.from(trajectory.tokens),
    logProbs: Array.from(trajectory.logProbs, (value) => Number(value.toPrecision(9))),
    key: { seed: String(trajectory.key.seed), stream: String(trajectory.key.stream) },
  };
}

const index = z.int().min(0);
const tokens = z.array(index.max(2 ** 31 - 1)).transform((ids) => Int32Array.from(ids));
const uint64 = z
  .string()
  .regex(/^\d{1,20}$/)
  .transform(BigInt)
  .refine((value) => value < 2n ** 64n, "must be below 2^64");

/** Loose: a line of `trajectories.jsonl` also holds what training made of the trajectory. */
const Line: z.ZodType<Trajectory> = z.looseObject({
  id: z.string(),
  step: index,
  group: index,
  sample: index,
  question: z.looseObject({
    id: z.string(),
    question: z.string(),
    goldAnswers: z.array(z.string()),
    metadata: z.record(z.string(), z.unknown()).exactOptional(),
  }),
  promptTokens: tokens,
  tokens,
  logProbs: z
    .array(z.number().refine((value) => Number.isFinite(Math.fround(value)), "must be a 32-bit float"))
    .transform((values) => Float32Array.from(values)),
  spans: z.array(
    z.looseObject({
      start: index,
      end: index,
      kind: z.enum(["think", "search", "answer", "tag", "observation", "notice"]),
    }),
  ),
  searches: z.array(
    z.looseObject({
      query: z.string(),
      passages: z.array(
        z.looseObject({
          id: z.string(),
          title: z.string(),
          text: z.string(),
          score: z.number().exactOptional(),
        }),
      ),
      start: index,
      end: index,
    }),
  ),
  answer: z.string().nullable(),
  status: z.enum(["answered", "no answer", "truncated", "search failed"]),
  reason: z.string().exactOptional(),
  turns: index,
  weightsVersion: z.tuple([index, index]),
  sampling: z.looseObject({ temperature: z.number(), topK: index, topP: z.number(), minP: z.number() }),
  key: z.looseObject({ seed: uint64, stream: uint64 }),
});

/**
 * Reads what {@link trajectoryToJson} wrote, to the bit. Nothing is converted: a number in quotes, a fraction where an
 * id belongs or an infinity is refused.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` if it is not a trajectory or contradicts itself; the message
 * names the first place that is wrong.
 */
export function trajectoryFromJson(json: unknown): Trajectory {
  const { data, error } = Line.safeParse(json);
  if (error !== undefined) {
    const [issue] = error.issues;
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      "This is not a trajectory as trajectoryToJson writes it; expected a line of trajectories.jsonl. " +
        `${issue?.path.join(".") || "It"}: ${issue?.message}.`,
    );
  }
  checkTrajectory(data, "INVALID_ARGUMENT");
  return data;
}
