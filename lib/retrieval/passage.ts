/** A piece of a corpus. Its words are foreign text: they are never trusted, parsed for actions or trained on. */
export interface Passage {
  /** Identity within its corpus. */
  readonly id: string;
  /** Without quotes; empty if the corpus has none. */
  readonly title: string;
  /** What it says. */
  readonly text: string;
  /** How well it matches the query, higher is better; on the engine's own scale, absent where it gives none. */
  readonly score?: number;
}

/**
 * Reads the `contents` field of a Search-R1 corpus: the title in double quotes, a line break, the text.
 *
 * The first line is the title if a line break follows it or if it is in quotes; its outer quotes are taken off, inner
 * ones stay. A single line without quotes is all text. Nothing is refused: contents come from servers too.
 */
export function parseContents(contents: string): Pick<Passage, "title" | "text"> {
  const end = contents.indexOf("\n");
  const first = (end < 0 ? contents : contents.slice(0, end)).trim();
  const quoted = first.length >= 2 && first.startsWith('"') && first.endsWith('"');
  if (end < 0 && !quoted) return { title: "", text: contents };
  return { title: quoted ? first.slice(1, -1) : first, text: end < 0 ? "" : contents.slice(end + 1) };
}

/**
 * Writes the `contents` field of a Search-R1 corpus. {@link parseContents} reads the same title and text back, except
 * that line breaks inside the title become spaces.
 */
export function formatContents({ title, text }: Pick<Passage, "title" | "text">): string {
  return `"${title.replaceAll(/[\r\n]+/g, " ")}"\n${text}`;
}
