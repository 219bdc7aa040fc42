import type { JudgeMessage } from "./prompt.js";

/** Asks a server for a JSON object with a critique. */
export const CRITIQUE_FORMAT = {
  type: "json_schema",
  json_schema: {
    name: "critique",
    strict: true,
    schema: {
      type: "object",
      properties: { critique: { type: "string" } },
      required: ["critique"],
      additionalProperties: false,
    },
  },
} as const;

/** A word that no model says by itself. */
const WORD = "zarquon-4711";

/**
 * Asks for something that only a server that keeps to the schema answers: many accept `response_format` and ignore it,
 * and a model that is told to write JSON cannot be told from a server that makes it.
 */
export const PROBE: { messages: readonly JudgeMessage[]; format: unknown } = {
  messages: [{ role: "user", content: [{ text: "Say hello.", trusted: true }] }],
  format: {
    type: "json_schema",
    json_schema: {
      name: "probe",
      strict: true,
      schema: {
        type: "object",
        properties: { word: { type: "string", enum: [WORD] } },
        required: ["word"],
        additionalProperties: false,
      },
    },
  },
};

/** Whether a reply to {@link PROBE} keeps to its schema. */
export function keepsToSchema(reply: string): boolean {
  try {
    return (JSON.parse(reply) as { word?: unknown } | null)?.word === WORD;
  } catch {
    return false;
  }
}
