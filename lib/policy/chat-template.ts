import { randomBytes } from "node:crypto";
import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";
import { HindsearchError } from "../errors.js";
import { joinSegments, type PromptSegment } from "./segment.js";
import type { Tokenizer } from "./tokenizer.js";

export type { PromptSegment } from "./segment.js";

/** One message of a conversation. */
export interface ChatMessage {
  /** `system`, `user`, `assistant`, `tool` or what else the template knows; lower-case letters and underscores. */
  role: string;
  /** Trusted and untrusted pieces; plain text is untrusted. */
  content: string | readonly PromptSegment[];
  /** Handed to the template as `tool_calls`. Trusted: it must not be made of text from outside. */
  toolCalls?: readonly unknown[];
}

/** Options of {@link ChatTemplate.render}. */
export interface RenderOptions {
  /** End with the opening of an assistant message. Default true. */
  addGenerationPrompt?: boolean;
  /** Descriptions of tools, handed to the template as `tools`. Trusted. */
  tools?: readonly unknown[];
  /** Other variables of the template, e.g. `{ enable_thinking: false }`. Trusted. */
  variables?: Readonly<Record<string, unknown>>;
}

/** No template iterates this often; a range can also be an attack on memory. */
const MAX_RANGE = 10_000;

/**
 * A model's chat template.
 *
 * Untrusted text never enters the template: it runs over unguessable placeholders of this one call, and the text takes
 * their places afterwards. So the template cannot be steered by it, and filters such as `trim` do not touch it.
 *
 * What the template adds on its own is kept. Qwen2.5's puts its default system message first when there is none, as in
 * transformers and in Search-R1's training; a system message of one's own, also an empty one, replaces it. The date is
 * not told to templates (`strftime_now` is undefined), because a prompt must not change overnight.
 */
export class ChatTemplate {
  readonly #program: ReturnType<typeof parse>;
  readonly #tokenizer: Pick<Tokenizer, "addedTokens" | "namedTokens">;

  /**
   * @param tokenizer - Whose template it is.
   * @throws {@link HindsearchError} `CHAT_TEMPLATE` if it has none or its template cannot be read.
   */
  constructor(tokenizer: Pick<Tokenizer, "chatTemplate" | "addedTokens" | "namedTokens">) {
    if (tokenizer.chatTemplate === null) {
      throw new HindsearchError(
        "CHAT_TEMPLATE",
        "This tokenizer has no chat template (neither chat_template.jinja nor chat_template in " +
          "tokenizer_config.json); add one, or use a prompt without chat messages.",
      );
    }
    this.#tokenizer = tokenizer;
    try {
      this.#program = parse(tokenize(tokenizer.chatTemplate, { lstrip_blocks: true, trim_blocks: true }));
    } catch (cause) {
      throw new HindsearchError(
        "CHAT_TEMPLATE",
        `Cannot read the chat template: ${(cause as Error).message}.`,
        {
          cause,
        },
      );
    }
  }

  /**
   * Renders a conversation.
   *
   * @param messages - In order.
   * @param options - See {@link RenderOptions}.
   * @returns The prompt, for {@link Tokenizer.encodePrompt}; neighbouring segments differ in trust.
   * @throws {@link HindsearchError} `CHAT_TEMPLATE` if the template fails, drops, changes or repeats a piece of untrusted
   * text; `INVALID_ARGUMENT` for a role of another form, or a control token in what is handed to the template as data.
   */
  render(messages: readonly ChatMessage[], options: RenderOptions = {}): PromptSegment[] {
    const { addGenerationPrompt = true, tools, variables = {} } = options;
    this.#checkData([tools, variables, messages.map(({ toolCalls }) => toolCalls)]);
    const placeholders = new Placeholders();
    const rendered = this.#run({
      ...variables,
      ...this.#tokenizer.namedTokens,
      messages: messages.map(({ role, content, toolCalls }) => {
        if (!/^[a-z_]+$/.test(role)) {
          throw new HindsearchError(
            "INVALID_ARGUMENT",
            `A role is lower-case letters, got ${JSON.stringify(role)}.`,
          );
        }
        return { role, content: placeholders.fill(content), ...(toolCalls && { tool_calls: toolCalls }) };
      }),
      add_generation_prompt: addGenerationPrompt,
      ...(tools && { tools }),
    });
    return placeholders.resolve(rendered);
  }

  #run(variables: Record<string, unknown>): string {
    const environment = new Environment();
    const fail = (message: unknown) => {
      throw new Error(String(message));
    };
    const globals = { true: true, True: true, false: false, False: false, none: null, None: null, range };
    try {
      for (const [name, value] of Object.entries({ ...globals, raise_exception: fail, ...variables })) {
        environment.set(name, value);
      }
      return (new Interpreter(environment).run(this.#program) as { value: string }).value;
    } catch (cause) {
      throw new HindsearchError("CHAT_TEMPLATE", `The chat template failed: ${(cause as Error).message}.`, {
        cause,
      });
    }
  }

  /** Data is trusted, so a control token in it would work; only the template itself may write one. */
  #checkData(value: unknown): void {
    if (typeof value === "string") {
      const token = this.#tokenizer.addedTokens.find((content) => value.includes(content));
      if (token === undefined) return;
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `Data for the chat template contains the control token ${token}; take it out, or put the text into a message.`,
      );
    }
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      this.#checkData(key);
      this.#checkData(inner);
    }
  }
}

/** Stand-ins for untrusted text: letters and digits only, so that no filter but one that changes text changes them. */
class Placeholders {
  readonly #key = `hs${randomBytes(16).toString("hex")}`;
  readonly #texts: string[] = [];

  fill(content: ChatMessage["content"]): string {
    const segments = typeof content === "string" ? [{ text: content, trusted: false }] : content;
    const pieces = joinSegments(segments).map(({ text, trusted }) =>
      trusted ? text : `${this.#key}x${this.#texts.push(text) - 1}x`,
    );
    return pieces.join("");
  }

  resolve(rendered: string): PromptSegment[] {
    const seen = this.#texts.map(() => 0);
    // A pattern with a group: odd pieces are the numbers.
    const pieces = rendered.split(new RegExp(`${this.#key}x(\\d+)x`));
    const segments = pieces.map((piece, i) => {
      if (i % 2 === 0) return { text: piece, trusted: true };
      seen[Number(piece)] = (seen[Number(piece)] ?? 0) + 1;
      return { text: this.#texts[Number(piece)] as string, trusted: false };
    });
    const wrong = seen.findIndex((count) => count !== 1);
    if (wrong >= 0 || segments.some(({ text, trusted }) => trusted && text.includes(this.#key))) {
      throw new HindsearchError(
        "CHAT_TEMPLATE",
        `The chat template must place every piece of a message exactly once and unchanged; piece ${Math.max(wrong, 0)} ` +
          `appears ${seen[wrong] ?? 0} times. Mark the text as trusted if you wrote it yourself, or use another template.`,
      );
    }
    return joinSegments(segments);
  }
}

function range(start: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop];
  const length = Math.max(0, Math.ceil((to - from) / step));
  if (!(length <= MAX_RANGE)) throw new Error(`range of ${length} numbers; at most ${MAX_RANGE} are allowed`);
  return Array.from({ length }, (_, i) => from + i * step);
}
