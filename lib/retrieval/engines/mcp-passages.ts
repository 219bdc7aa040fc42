import { contentId } from "../answer.js";
import { type Passage, parseContents } from "../passage.js";

/** What an MCP tool answered, as far as passages can be in it. */
export interface McpToolResult {
  /** Blocks; of interest are `text` and `resource` ones. */
  content?: readonly McpContent[] | undefined;
  /** For tools with an output schema. */
  structuredContent?: Record<string, unknown> | undefined;
}

/** A block of a tool's answer. */
export interface McpContent {
  /** `text`, `resource`, `image`, ... */
  type: string;
  /** Of a text block. */
  text?: string | undefined;
  /** Of a resource block. */
  resource?: McpResource | undefined;
}

/** A document in a tool's answer. */
export interface McpResource {
  /** Becomes the passage's id. */
  uri: string;
  /** Absent for binary ones, which are passed over. */
  text?: string | undefined;
}

const FIELDS = {
  id: ["id", "uri", "url", "link", "path"],
  title: ["title", "name", "heading"],
  text: ["text", "contents", "content", "passage", "snippet", "body", "page_content", "description"],
  score: ["score", "similarity", "relevance"],
} as const;

/**
 * The passages in a tool's answer, where they are in one of the usual places: a list in the structured content or in a text
 * block that is JSON, else each text block and each resource with text. Objects have their parts under the usual names.
 *
 * @throws Error if there is something that it cannot read.
 */
export function mcpPassages({ structuredContent, content = [] }: McpToolResult): Passage[] {
  if (structuredContent !== undefined) return listed(structuredContent);
  return content.flatMap(({ type, text, resource }) => {
    if (type === "resource" && resource?.text !== undefined) {
      return [{ id: resource.uri, ...parseContents(resource.text) }];
    }
    if (type !== "text" || text === undefined || text.trim() === "") return [];
    const value = /^\s*[[{]/.test(text) ? json(text) : undefined;
    return value === undefined ? [{ id: contentId(text), ...parseContents(text) }] : listed(value);
  });
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A text that begins with a bracket.
    return undefined;
  }
}

/** A list, the list that an object holds, or an object that is a passage itself. */
function listed(value: unknown): Passage[] {
  if (Array.isArray(value)) return value.map(passageOf);
  const lists = Object.values(value as object).filter(Array.isArray);
  if (lists.length === 1) return (lists[0] as unknown[]).map(passageOf);
  if (lists.length > 1) throw new Error("it holds more than one list");
  return [passageOf(value)];
}

function passageOf(item: unknown): Passage {
  if (typeof item === "string") return { id: contentId(item), ...parseContents(item) };
  const record = (item ?? {}) as Record<string, unknown>;
  const first = (names: readonly string[], type: string) =>
    names.map((name) => record[name]).find((value) => typeof value === type);
  const text = first(FIELDS.text, "string") as string | undefined;
  if (text === undefined) {
    throw new Error(
      `an entry with the fields ${Object.keys(record).slice(0, 12).join(", ") || "none"} has no text`,
    );
  }
  const title = first(FIELDS.title, "string") as string | undefined;
  const id = first(FIELDS.id, "string") ?? first(FIELDS.id, "number") ?? contentId(text);
  const score = first(FIELDS.score, "number") as number | undefined;
  const parts = title === undefined ? parseContents(text) : { title, text };
  return { id: String(id), ...parts, ...(score !== undefined && { score }) };
}
