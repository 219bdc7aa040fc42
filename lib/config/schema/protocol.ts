import { z } from "zod";
import type { SearchProtocol } from "../../agent/protocol.js";
import { searchR1 } from "../../agent/protocol.js";
import { count } from "./fields.js";

const DEFAULTS: SearchProtocol = searchR1();

const pair = ({ open, close }: SearchProtocol["tags"]["search"]) =>
  z
    .strictObject({
      open: z.string().min(1).default(open).describe("Opening tag."),
      close: z.string().min(1).default(close).describe("Closing tag."),
    })
    .prefault({});

/** How policy and search engine talk. */
export const Protocol = z
  .strictObject({
    name: z.string().min(1).default(DEFAULTS.name).describe("For reports."),
    prompt: z
      .string()
      .refine((text) => text.split("{question}").length === 2, "must hold {question} once")
      .optional()
      .describe(
        "The user message, with `{question}` once. Default: Search-R1's instruction in words of our own.",
      ),
    hintLabel: z
      .string()
      .optional()
      .describe("Put before the teacher's hint. Default: words that call it advice."),
    chat: z
      .boolean()
      .default(DEFAULTS.chat)
      .describe("Whether the prompt goes through the model's chat template."),
    maxSearches: z
      .int()
      .min(0)
      .default(DEFAULTS.maxSearches)
      .describe("Turns in which the policy may search."),
    passagesPerSearch: count.default(DEFAULTS.passagesPerSearch).describe("Passages per search."),
    maxTurnTokens: count
      .default(DEFAULTS.maxTurnTokens)
      .describe("Tokens that the policy may write in one turn."),
    maxObservationTokens: count
      .default(DEFAULTS.maxObservationTokens)
      .describe("Tokens of one observation, its tags included."),
    maxTokens: count.default(DEFAULTS.maxTokens).describe("Tokens of prompt and trajectory together."),
    cutPassages: z
      .enum(["token", "sentence"])
      .default(DEFAULTS.cutPassages)
      .describe("Where passages that do not fit are cut."),
    repeatedPassages: z
      .enum(["show", "skip"])
      .default(DEFAULTS.repeatedPassages)
      .describe("What becomes of passages that an earlier search of the same trajectory returned."),
    tags: z
      .strictObject({
        search: pair(DEFAULTS.tags.search).describe("Around a query."),
        information: pair(DEFAULTS.tags.information).describe("Around what a search returned."),
        answer: pair(DEFAULTS.tags.answer).describe("Around the answer."),
      })
      .prefault({})
      .describe("The tags of actions and observations."),
    notice: z
      .string()
      .optional()
      .describe("Inserted after a turn without a complete action. Default: names the tags."),
  })
  .meta({ id: "protocol" });

/** See {@link Protocol}. */
export type ProtocolConfig = z.output<typeof Protocol>;
