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
/** In passages and other contents, where a shorter one may be a word. */
const SHORTEST_IN_CONTENTS = 12;
/** Of a header's value, what is looked for by itself: a token without its scheme, the value of a cookie. */
const SHORTEST_PART = 8;

/** What a request holds that may stand nowhere else. */
interface RequestParts {
  apiKey?: string | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
  /** Address; its query may hold a key. */
  url?: string | undefined;
}

/**
 * The secrets of a request: its key, the values of its headers and what these are made of, and the values of the
 * address's query, as they are written and as they are meant.
 *
 * @internal
 */
export function requestSecrets({ apiKey, headers = {}, url }: RequestParts): string[] {
  const { search, searchParams } = new URL(url ?? "http://none");
  const written = search
    .slice(1)
    .split("&")
    .map((pair) => pair.slice(pair.indexOf("=") + 1));
  return [
    ...(apiKey === undefined ? [] : [apiKey]),
    ...Object.values(headers).flatMap((value) => [value, ...partsOf(value)]),
    ...written,
    ...searchParams.values(),
  ];
}

function partsOf(header: string): string[] {
  const [, basic] = /^basic\s+(\S+)$/i.exec(header) ?? [];
  const login = basic === undefined ? "" : Buffer.from(basic, "base64").toString();
  const parts = header.split(/[\s;,]+/).flatMap((part) => [part, part.slice(part.indexOf("=") + 1)]);
  return [...parts, login, login.slice(login.indexOf(":") + 1)].filter(
    ({ length }) => length >= SHORTEST_PART,
  );
}

/**
 * Takes secrets out of texts, in the forms in which servers repeat them: as they are, percent-encoded, as a form's
 * field, within JSON, in base64, and what is made of two of these. Servers repeat what they were sent, in error pages and
 * in redirects, so that every message with foreign text in it goes through here.
 *
 * @internal
 */
export class Scrubber {
  readonly #anywhere: SecretPattern;
  readonly #inContents: SecretPattern;

  constructor(secrets: readonly (string | undefined)[]) {
    const known = [...new Set(secrets)].filter((secret) => secret !== undefined);
    this.#anywhere = patternOf(known.filter(({ length }) => length >= SHORTEST));
    this.#inContents = patternOf(known.filter(({ length }) => length >= SHORTEST_IN_CONTENTS));
  }

  /** The text with `***` in place of every secret. */
  scrub(text: string): string {
    return without(this.#anywhere, text);
  }

  /** The same for contents that are used, e.g. a passage: of long secrets only. */
  scrubContents(text: string): string {
    return without(this.#inContents, text);
  }

  /** The beginning of a server's text for a message: one line, no control characters, no secrets. */
  excerpt(text: string): string {
    // Before cutting: half a secret is still one. At the end of what is read there may be such a half.
    const scrubbed = this.scrub(text.slice(0, MOST_READ));
    const whole = text.length <= MOST_READ ? scrubbed : scrubbed.slice(0, -1 - this.#anywhere.longest);
    const line = whole.replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, " ").trim();
    return JSON.stringify(line.length > 160 ? `${line.slice(0, 160)}…` : line);
  }
}

/** Finds secrets in all their forms. */
interface SecretPattern {
  /** `undefined` if there is nothing to be found. */
  pattern: RegExp | undefined;
  /** Length of the longest form. */
  longest: number;
}

function without({ pattern }: SecretPattern, text: string): string {
  return pattern === undefined ? text : text.replaceAll(pattern, "***");
}

function patternOf(secrets: readonly string[]): SecretPattern {
  // Longest first, so that none leaves a rest of another.
  const forms = [...new Set(secrets.flatMap(encodings).flatMap(encodings))]
    .filter(({ length }) => length >= SHORTEST)
    .sort((x, y) => y.length - x.length);
  const sources = forms.map((form) => form.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return {
    pattern: forms.length === 0 ? undefined : new RegExp(sources.join("|"), "g"),
    longest: forms[0]?.length ?? 0,
  };
}

/** A text as it is and in every encoding. */
function encodings(text: string): string[] {
  return [text, JSON.stringify(text).slice(1, -1), ...inAddresses(text), ...inBase64(text)];
}

/** Codes may have either case, punctuation may stay, and a space may be a plus. */
function inAddresses(text: string): string[] {
  const valid = text.replaceAll(/[\ud800-\udfff]/gu, "\ufffd");
  const encoded = encodeURIComponent(valid);
  const lowerCase = encoded.replaceAll(/%../g, (code) => code.toLowerCase());
  return [encoded, lowerCase, encodeURI(valid), new URLSearchParams([["", valid]]).toString().slice(1)];
}

/**
 * A text within base64, in both alphabets: behind zero, one or two other bytes, and without the characters that also
 * depend on its neighbours.
 */
function inBase64(text: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(text)]);
    const [start, end] = [Math.ceil((8 * before) / 6), Math.floor((8 * bytes.length) / 6)];
    return (["base64", "base64url"] as const).map((alphabet) => bytes.toString(alphabet).slice(start, end));
  });
}
