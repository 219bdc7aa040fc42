import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { HindsearchError } from "../../errors.js";
import { RefusedRequest } from "./refused-request.js";

/** Whether only processes of the same machine can reach an address. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  if (isIP(name) === 4) return name.startsWith("127.");
  return name === "localhost" || name === "::1";
}

/**
 * Who may use a server: on loopback everybody on the machine, else those who know the token.
 */
export class Access {
  readonly #token: Buffer | undefined;

  /**
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` if the address can be reached from outside and there is no token.
   */
  constructor(host: string, token: string | undefined) {
    if (token === undefined && !isLoopback(host)) {
      throw new HindsearchError(
        "INVALID_ARGUMENT",
        `Other machines can reach ${host}: set the option token, or the environment variable HINDSEARCH_SERVER_TOKEN, ` +
          "or serve on 127.0.0.1.",
      );
    }
    this.#token = token === undefined ? undefined : digest(`Bearer ${token}`);
  }

  /**
   * @throws {@link RefusedRequest} 401 without the token, and what {@link Access.checkHost} throws.
   */
  check(request: IncomingMessage): void {
    this.checkHost(request);
    if (this.#token === undefined) return;
    if (timingSafeEqual(digest(request.headers.authorization ?? ""), this.#token)) return;
    throw new RefusedRequest(401, "a token is needed: Authorization: Bearer", {
      "www-authenticate": "Bearer",
    });
  }

  /**
   * @throws {@link RefusedRequest} 403 if there is no token and the request was meant for another host: a page in a
   * browser can have its own name point at loopback.
   */
  checkHost({ headers }: IncomingMessage): void {
    const url = `http://${headers.host ?? ""}`;
    if (this.#token !== undefined || (URL.canParse(url) && isLoopback(new URL(url).hostname))) return;
    throw new RefusedRequest(403, "this server answers to loopback names only");
  }
}

/** Of equal length, as the comparison needs. */
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
