/** A request that cannot be served, with its status and what the client is told. */
export class RefusedRequest extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}
