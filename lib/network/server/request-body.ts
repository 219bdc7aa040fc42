import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { RefusedRequest } from "./refused-request.js";

/**
 * Reads the JSON body of a request.
 *
 * @throws {@link RefusedRequest} 415 if it is no plain JSON by its headers, 413 if it is too long, 422 if it is no JSON.
 */
export async function readJsonBody(request: IncomingMessage, maxBytes: number): Promise<unknown> {
  // A page in a browser may send other types to any address without being asked.
  if (!/^application\/json\s*(;|$)/i.test(request.headers["content-type"] ?? "")) {
    throw new RefusedRequest(415, "the body must be of type application/json");
  }
  if ((request.headers["content-encoding"] ?? "identity") !== "identity") {
    throw new RefusedRequest(415, "compressed bodies are not read");
  }
  const bytes = await readUpTo(request, maxBytes);
  try {
    if (isUtf8(bytes)) return JSON.parse(bytes.toString());
  } catch {
    // The message below says all there is to say.
  }
  throw new RefusedRequest(422, "body: not JSON");
}

async function readUpTo(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const tooLong = new RefusedRequest(413, `the body has more than ${maxBytes} bytes`, {
    connection: "close",
  });
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) throw tooLong;
  const chunks: Buffer[] = [];
  let total = 0;
  // Not an iterator: leaving its loop would destroy the socket before the refusal is sent.
  await new Promise<void>((done, failed) => {
    request.on("data", (chunk: Buffer) => {
      total += chunk.length;
      if (total > maxBytes) {
        request.pause().removeAllListeners("data");
        failed(tooLong);
      } else chunks.push(chunk);
    });
    request.once("end", done);
    request.once("error", failed);
  });
  return Buffer.concat(chunks);
}
