import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** The repository. */
export const ROOT = resolve(import.meta.dirname, "../..");

/** Part of a block's text and what stands in its place when the block is run: a port, a number of steps. */
export type Replacement = readonly [text: string, replacement: string];

/**
 * What the comment in front of a block says; none: it is run as it stands.
 *
 * | comment | meaning |
 * |---|---|
 * | `context` and lines of TypeScript | a fragment: its types are checked behind these lines |
 * | `run with` and lines `text => replacement` | it is run with this in place of that |
 * | `background: word` and such lines, if any | it is run until it prints the word, and goes on while the page's other blocks run |
 * | `file: name` and such lines | it is written to that file before the page's blocks are run |
 * | `not run: reason` | it cannot run offline |
 */
export type Directive =
  | { kind: "run"; replacements: readonly Replacement[] }
  | { kind: "background"; until: string; replacements: readonly Replacement[] }
  | { kind: "file"; name: string; replacements: readonly Replacement[] }
  | { kind: "fragment"; context: string }
  | { kind: "not run"; reason: string };

/** A fenced code block. */
export interface Block {
  /** Path of its page from the repository's root. */
  page: string;
  /** Line of its first line of code, from 1. */
  line: number;
  /** The word behind the fence; empty if there is none. */
  language: string;
  text: string;
  directive: Directive;
}

/** README.md and the pages of docs. */
export function pages(): string[] {
  const docs = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md"));
  return ["README.md", ...docs.sort().map((name) => `docs/${name}`)];
}

/** The text of a page. */
export function pageText(page: string): string {
  return readFileSync(join(ROOT, page), "utf8");
}

/** The code blocks of a text, in their order. */
export function blocksOf(page: string, text: string): Block[] {
  return [...text.matchAll(/^```(\S*)[^\n]*\n([\s\S]*?)^```$/gm)].map((match) => {
    const before = text.slice(0, match.index);
    const [, comment] = before.match(/<!--((?:(?!-->)[\s\S])*)-->\s*$/) ?? [];
    return {
      page,
      line: before.split("\n").length + 1,
      language: match[1] ?? "",
      text: match[2] ?? "",
      directive: directiveOf(comment?.trim() ?? ""),
    };
  });
}

/** The text as it is run. */
export function runnable({ page, line, text, directive }: Block): string {
  const replacements = "replacements" in directive ? directive.replacements : [];
  return replacements.reduce((result, [from, to]) => {
    if (!result.includes(from)) throw new Error(`${page}, line ${line}: the block does not hold "${from}".`);
    return result.replaceAll(from, to);
  }, text);
}

function directiveOf(comment: string): Directive {
  const [head = "", ...lines] = comment.split("\n");
  const [, word, value] = head.match(/^(not run|background|file): (.+)$/) ?? [];
  if (word === "not run") return { kind: "not run", reason: [value, ...lines].join(" ") };
  if (word === "background")
    return { kind: "background", until: value as string, replacements: pairs(lines) };
  if (word === "file") return { kind: "file", name: value as string, replacements: pairs(lines) };
  if (head === "context") return { kind: "fragment", context: lines.join("\n") };
  return { kind: "run", replacements: head === "run with" ? pairs(lines) : [] };
}

function pairs(lines: readonly string[]): Replacement[] {
  return lines.map((line) => {
    const [from, to, ...rest] = line.split(" => ");
    if (!from || to === undefined || rest.length > 0)
      throw new Error(`"${line}" is no "text => replacement".`);
    return [from, to];
  });
}
