/** Values that look like a secret, wherever they stand: bearer headers, keys of the common services, logins in URLs. */
const SUSPECTS: readonly [RegExp, string][] = [
  [/\b(Bearer|Basic)\s+[\w.~+/=-]{8,}/gi, "$1 [redacted]"],
  [/\b(sk|pk|rk|hf|ghp|gho|xoxb)[-_][A-Za-z0-9_-]{12,}/g, "[redacted]"],
  [/(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi, "$1[redacted]@"],
  [/([?&](?:api[-_]?key|key|secret|password|(?:access[-_]?|auth[-_]?)?token)=)[^&\s"']+/gi, "$1[redacted]"],
];
/** Of foreign text, in characters: what is looked at, since the patterns are slow on megabytes, and what is kept. */
const [MOST_READ, MOST_KEPT] = [4096, 500];

/**
 * The text with `[redacted]` in place of what looks like a secret.
 *
 * @internal
 */
export function redactText(text: string): string {
  return SUSPECTS.reduce((redacted, [pattern, by]) => redacted.replaceAll(pattern, by), text);
}

/**
 * What foreign code (a retriever, a judge) gave as the reason of its failure, for a record or a message: one line of
 * at most 500 characters, without what looks like a secret. The secrets themselves only that code knows.
 *
 * @param reason - A text, or whatever was thrown.
 * @internal
 */
export function foreignReason(reason: unknown): string {
  const text = reason instanceof Error ? reason.message : String(reason);
  // Redacted before it is cut: half a secret is still one.
  const line = redactText(text.slice(0, MOST_READ))
    .replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, " ")
    .trim();
  const kept = line.length > MOST_KEPT ? `${line.slice(0, MOST_KEPT)}…` : line;
  return kept.replaceAll(/[\ud800-\udfff]/gu, "\ufffd");
}

/** Shorter values cannot be taken out of a message without mutilating it, and are no secrets. */
const SHORTEST = 6;

/**
 * Takes secrets out of messages. Servers repeat what they were sent, in error pages and in redirects, so that every
 * message with foreign text in it goes through here.
 *
 * @internal
 */
export class Scrubber {
  readonly #secrets: readonly string[];

  constructor(secrets: readonly (string | undefined)[]) {
    this.#secrets = secrets
      .filter((secret) => secret !== undefined)
      .flatMap((secret) => [secret, encodeURIComponent(secret)])
      .filter((secret) => secret.length >= SHORTEST)
      .sort((x, y) => y.length - x.length);
  }

  /** The text with `***` in place of every secret. */
  scrub(text: string): string {
    return this.#secrets.reduce((scrubbed, secret) => scrubbed.replaceAll(secret, "***"), text);
  }

  /** The beginning of a server's text for a message: one line, no control characters, no secrets. */
  excerpt(text: string): string {
    // Before cutting: half a secret is still one.
    const line = this.scrub(text)
      .replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, " ")
      .trim();
    return JSON.stringify(line.length > 160 ? `${line.slice(0, 160)}…` : line);
  }
}
