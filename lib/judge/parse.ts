import { z } from "zod";
import { cutText } from "../retrieval/cut.js";
import type { Critique, CritiqueFailure } from "./critique.js";
import type { ReplyForm } from "./prompt.js";
import { sanitize } from "./sanitize.js";
import type { RequestTokens } from "./usage.js";

/** What is needed of a tokenizer to count and cut tokens; the policy's own, since its teacher reads the critique. */
export interface TextTokenizer {
  /** Ids of a text that holds no control tokens. */
  encodeText(text: string): number[];
  /** The text of ids; a character cut in half becomes U+FFFD. */
  decode(ids: readonly number[]): string;
}

/** How a reply becomes a critique. */
export interface ParseOptions {
  /** Counts and cuts the critique. */
  tokenizer: TextTokenizer;
  /** The longest critique in tokens; more is cut off. Default 128. */
  maxCritiqueTokens?: number | undefined;
  /** Tags to take out of critiques: those of the search protocol. Default `think`, `search`, `information`, `answer`. */
  tags?: readonly string[] | undefined;
}

/** What a model wrote. */
export interface ModelReply {
  /** The whole reply. */
  text: string;
  /** Whether the model came to an end, reached its token limit, or declined through the API. */
  finish: "stop" | "length" | "refused";
  /** Tokens read and written, if that is known. */
  usage?: RequestTokens | undefined;
}

/** Characters per token that are read of a critique before its tokens are counted, which takes long. */
const CHARACTERS_PER_TOKEN = 32;
/** Default of {@link ParseOptions.maxCritiqueTokens}. @internal */
export const MAX_CRITIQUE_TOKENS = 128;
const DEFAULT_TAGS = ["think", "search", "information", "answer"] as const;
/** A critique of so many characters or fewer says nothing. */
const TOO_SHORT = 10;
const REFUSAL =
  /^(?:i['’]?m sorry|i am sorry|sorry\b|i apologi[sz]e|(?:unfortunately,? )?i (?:cannot|can['’]?t|can not|am unable|['’]m unable|won['’]?t|will not)\b|i['’]m unable|as an ai\b)/i;

/**
 * Reads the critique out of a model's reply.
 *
 * The last block between the marks counts; if no block is closed and the model came to an end, the rest after the last
 * opening mark. In the structured form the reply is a JSON object with a text under `critique`, what the model thought
 * before it aside; marked text is read there too. Marks, control tokens, tags and invisible characters are taken out,
 * white space becomes single spaces, and what is longer than `maxCritiqueTokens` is cut.
 *
 * @param reply - What the model wrote.
 * @param nonce - Of the prompt's marks.
 * @param options - Tokenizer and limits.
 * @param form - That was asked for. Default `marked`.
 */
export function parseCritique(
  reply: ModelReply,
  nonce: string,
  options: ParseOptions,
  form: ReplyForm = "marked",
): Critique {
  const raw = reply.text;
  const failed = (status: CritiqueFailure, reason: string): Critique => ({ status, reason, raw });
  if (reply.finish === "refused") return failed("refused", "the model declined through its API");
  const block = (form === "structured" ? objectBlock(raw) : undefined) ?? lastBlock(raw, nonce);
  if (block === undefined || (!block.closed && reply.finish === "length")) {
    if (reply.finish === "length") return failed("truncated", "the reply ended at its token limit");
    if (raw.trim() === "") return failed("empty", "the reply is empty");
    if (REFUSAL.test(raw.trim())) return failed("refused", "the reply begins like a refusal");
    return failed("unparsable", `the reply has no ${form} critique`);
  }
  const { tokenizer, maxCritiqueTokens = MAX_CRITIQUE_TOKENS, tags = DEFAULT_TAGS } = options;
  const said = cutText(block.text, CHARACTERS_PER_TOKEN * maxCritiqueTokens);
  const clean = sanitize(said.replaceAll(markPattern(nonce), " "), tags);
  if (clean === "") return failed("empty", "the critique is empty");
  if (REFUSAL.test(clean)) return failed("refused", "the critique begins like a refusal");
  const text = cut(clean, maxCritiqueTokens, tokenizer);
  if ([...text].length <= TOO_SHORT) {
    return failed(
      "too-short",
      `the critique has ${[...text].length} characters, needed are more than ${TOO_SHORT}`,
    );
  }
  return { status: "ok", text, raw };
}

const CritiqueObject = z.object({ critique: z.string() });

/** Only the whole reply counts: an object within a text may be a passage that the model quotes. */
function objectBlock(reply: string): { text: string; closed: boolean } | undefined {
  const end = reply.lastIndexOf("</think>");
  try {
    const value: unknown = JSON.parse(end < 0 ? reply : reply.slice(end + "</think>".length));
    const { data } = CritiqueObject.safeParse(value);
    return data && { text: data.critique, closed: true };
  } catch {
    return undefined;
  }
}

/** Models change the case of marks and the spaces inside. */
function markPattern(nonce: string): RegExp {
  return new RegExp(`\\[\\[\\s*(critique|end|data|end of data)\\s+${nonce}\\s*\\]\\]`, "gi");
}

function lastBlock(reply: string, nonce: string): { text: string; closed: boolean } | undefined {
  let open: number | undefined;
  let block: string | undefined;
  for (const match of reply.matchAll(markPattern(nonce))) {
    const kind = match[1]?.toLowerCase();
    if (kind === "critique") open = match.index + match[0].length;
    else if (kind === "end" && open !== undefined) {
      block = reply.slice(open, match.index);
      open = undefined;
    }
  }
  if (block !== undefined) return { text: block, closed: true };
  return open === undefined ? undefined : { text: reply.slice(open), closed: false };
}

/** Cuts to so many tokens, at a whole character. Encoding what is left can give other tokens, so it is counted again. */
function cut(text: string, limit: number, tokenizer: TextTokenizer): string {
  let shorter = text;
  for (let keep = limit; ; keep--) {
    const ids = tokenizer.encodeText(shorter);
    if (ids.length <= limit) return shorter;
    shorter = tokenizer
      .decode(ids.slice(0, keep))
      .replace(/\ufffd+$/, "")
      .trim();
  }
}
