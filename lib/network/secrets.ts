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
