import type { ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { type Handler, type ReceivedRequest, sendJson } from "./loopback-server.js";

/** A handler that looks at the response alone. */
export const raw =
  (act: (response: ServerResponse) => unknown): Handler =>
  (_request, response) =>
    void act(response);

/** Answers with a status and nothing else, or with `body`. */
export const status = (code: number, headers = {}, body = ""): Handler =>
  raw((response) => response.writeHead(code, headers).end(body));

/** Misbehaves for the first requests, then does not. */
export const first =
  (times: number, misbehave: Handler, behave: Handler): Handler =>
  (request, response, index) =>
    (index < times ? misbehave : behave)(request, response, index);

/** Answers late. */
export const slow =
  (milliseconds: number, handler: Handler): Handler =>
  (request, response, index) =>
    void setTimeout(() => handler(request, response, index), milliseconds);

/** Answers with a JSON value. */
export const json = (value: unknown): Handler => raw((response) => sendJson(response, value));

/** Answers with a text that calls itself JSON. */
export const text = (body: string, type = "application/json"): Handler =>
  status(200, { "content-type": type }, body);

/** Never answers. */
export const hang: Handler = () => {};

/** Closes the connection instead of an answer. */
export const drop = raw((response) => response.socket?.destroy());

/** Speaks another protocol. */
export const notHttp = raw((response) => response.socket?.end("SSH-2.0-OpenSSH\r\n"));

/** Promises more bytes than it sends, then closes the connection. */
export const breakOff = raw((response) => {
  response.writeHead(200, { "content-type": "application/json", "content-length": 1000 });
  response.write('{"result": [[');
  setTimeout(() => response.socket?.destroy(), 5);
});

/** Closes the connection in the middle of a body of unknown length. */
export const breakOffChunked = raw((response) => {
  response.writeHead(200, { "content-type": "application/json" });
  response.write('{"result": [[');
  setTimeout(() => response.socket?.destroy(), 5);
});

/** Resets the connection in the middle of a body. */
export const reset = raw((response) => {
  response.writeHead(200, { "content-type": "application/json" });
  response.write('{"result": [[');
  setTimeout(() => response.socket?.resetAndDestroy(), 5);
});

/** Sends a byte now and then, for ever. */
export const trickle = raw((response) => {
  response.writeHead(200, { "content-type": "application/json" });
  const timer = setInterval(() => response.write(" "), 10);
  response.once("close", () => clearInterval(timer));
});

/** Sends a header now and then, for ever. */
export const trickleHeaders = raw(({ socket }) => {
  socket?.write("HTTP/1.1 200 OK\r\n");
  const timer = setInterval(() => socket?.write("x: y\r\n"), 10);
  socket?.once("close", () => clearInterval(timer));
});

/** Writes as much as is taken, for ever. */
function pour(to: NodeJS.WritableStream & { destroyed: boolean }, chunk: string | Buffer): void {
  const more = () => {
    while (!to.destroyed && to.write(chunk));
  };
  to.on("drain", more);
  more();
}

/** Sends as large a body as it can, for ever. */
export const floodWith = (code: number) =>
  raw((response) => {
    response.writeHead(code, { "content-type": "application/json" });
    pour(response, Buffer.alloc(65_536, 32));
  });
export const flood = floodWith(200);

/** Sends as many headers as it can, for ever. */
export const floodHeaders = raw(({ socket }) => {
  if (socket === null) return;
  socket.write("HTTP/1.1 200 OK\r\n");
  pour(socket, `x: ${"y".repeat(1000)}\r\n`);
});

/** Few bytes that become 64 MiB; made once. */
let packed: Buffer | undefined;

/** Sends few bytes that become 64 MiB. */
export const bomb = raw((response) => {
  packed ??= gzipSync(Buffer.alloc(64 * 2 ** 20, 32));
  response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" }).end(packed);
});

/** Sends lists within lists, deeper than any stack. */
export const nested = text("[".repeat(200_000) + "]".repeat(200_000));

/** Answers, and then sends the answer once more. */
export const twice =
  (answer: (request: ReceivedRequest) => unknown, headers = {}): Handler =>
  (request, response) => {
    const body = JSON.stringify(answer(request));
    const { socket } = response;
    const length = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    response.writeHead(200, { ...length, ...headers });
    response.end(body, () =>
      socket?.write(`HTTP/1.1 200 OK\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`),
    );
  };
