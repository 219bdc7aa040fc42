import { redactText } from "../network/secrets.js";

/** Names under which secrets travel. `tokens`, `maxTokens` and the like are counts, not secrets. */
const SECRET =
  /^(.*(api[-_]?key|secret|passwords?|passphrase|authorization|credentials?|cookie)|((access|auth|bearer|refresh|hf|hub|session)[-_]?)?token)$/i;

/**
 * A copy of JSON data in which secrets are replaced by `[redacted]`: values under the name of a secret, and strings
 * that look like one.
 *
 * @internal
 */
export function redactSecrets(value: unknown): unknown {
  if (typeof value === "string") return redactText(value);
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
