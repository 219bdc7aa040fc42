/** Names under which secrets travel. `tokens`, `maxTokens` and the like are counts, not secrets. */
const SECRET =
  /^(.*(api[-_]?key|secret|passwords?|passphrase|authorization|credentials?|cookie)|((access|auth|bearer|refresh|hf|hub|session)[-_]?)?token)$/i;
/** Values that look like one, wherever they stand: bearer headers, keys of the common services, logins in URLs. */
const VALUES: readonly [RegExp, string][] = [
  [/\b(Bearer|Basic)\s+[\w.~+/=-]{8,}/gi, "$1 [redacted]"],
  [/\b(sk|pk|rk|hf|ghp|gho|xoxb)[-_][A-Za-z0-9_-]{12,}/g, "[redacted]"],
  [/(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi, "$1[redacted]@"],
];

/**
 * A copy of JSON data in which secrets are replaced by `[redacted]`: values under the name of a secret, and strings
 * that look like one.
 *
 * @internal
 */
export function redactSecrets(value: unknown): unknown {
  if (typeof value === "string") {
    return VALUES.reduce((text, [pattern, by]) => text.replaceAll(pattern, by), value);
  }
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return value.map(redactSecrets);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      SECRET.test(name) && inner !== undefined && inner !== null ? "[redacted]" : redactSecrets(inner),
    ]),
  );
}
