/**
 * A piece of a prompt. What a developer or the chat template wrote is trusted and may hold control tokens; questions,
 * passages, critiques and everything else from outside is not, and is encoded so that it cannot.
 */
export interface PromptSegment {
  /** May be empty. */
  text: string;
  /** Whether control tokens in `text` mean what they say. */
  trusted: boolean;
}

/**
 * The same text with neighbouring segments of equal trust joined and empty ones left out.
 *
 * @internal
 */
export function joinSegments(segments: readonly PromptSegment[]): PromptSegment[] {
  const joined: PromptSegment[] = [];
  for (const { text, trusted } of segments) {
    const last = joined.at(-1);
    if (text === "") continue;
    if (last?.trusted === trusted) last.text += text;
    else joined.push({ text, trusted });
  }
  return joined;
}
