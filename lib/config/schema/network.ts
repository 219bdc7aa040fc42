import type { BreakerOptions } from "../../network/breaker.js";
import type { RetryOptions } from "../../network/retry.js";
import type { RemoteOptions } from "../../retrieval/remote.js";

/** Of the options that every client of a server has. */
export const RETRY_TEXTS = {
  retries: "Attempts after the first one.",
  baseDelayMs: "Milliseconds before the first retry; doubled each time, times a random factor of 0.5 to 1.",
  maxDelayMs: "The longest such wait.",
  maxRetryAfterMs:
    "The longest wait that the server may ask for with Retry-After; if it asks for more, the request fails.",
} satisfies Record<keyof RetryOptions, string>;

const BREAKER_TEXTS = {
  breakerFailures: "After so many requests in a row that failed, nothing is sent for `breakerOpenMs`.",
  breakerOpenMs: "How long; then one request tries whether the server is back.",
} satisfies Record<keyof BreakerOptions, string>;

/** Of the options that every client with a circuit breaker has. */
export const GUARD_TEXTS = { ...RETRY_TEXTS, ...BREAKER_TEXTS };

/** Of the options that every retriever behind a connection has. */
export const REMOTE_TEXTS = {
  ...GUARD_TEXTS,
  timeoutMs: "Milliseconds for one attempt, from connecting to the last byte.",
  batchSize: "Most distinct queries in one request.",
  batchWindowMs: "How long a search waits for others to share its request.",
  concurrency: "Requests at work at the same time.",
  maxQueryLength: "Longer queries are cut to so many characters.",
} satisfies Record<keyof RemoteOptions, string>;

/** Of endpoints that JSON is posted to. */
export const ENDPOINT_TEXTS = {
  ...GUARD_TEXTS,
  url: "Address of the endpoint; http or https, without user and password.",
  headers: "Further request headers; their values are secrets: refer to variables.",
  timeoutMs: "Milliseconds for one attempt, from connecting to the last byte.",
  maxResponseBytes: "Most bytes of a response.",
  concurrency: "Requests at work at the same time.",
};

/** Of a key that an environment variable holds by default. */
export const keyText = (variable: string) =>
  `Sent as \`Authorization: Bearer\`; a secret: refer to a variable. Without it the variable \`${variable}\` is read, if it is set.`;
