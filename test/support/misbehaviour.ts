import type { ServerResponse } from "node:http";
import type { Handler } from "./loopback-server.js";

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

/** Never answers. */
export const hang: Handler = () => {};

/** Closes the connection instead of an answer. */
export const drop = raw((response) => response.socket?.destroy());

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

/** Sends a byte now and then, for ever. */
export const trickle = raw((response) => {
  response.writeHead(200, { "content-type": "application/json" });
  const timer = setInterval(() => response.write(" "), 10);
  response.once("close", () => clearInterval(timer));
});

/** Sends as much as it can, for ever. */
export const flood = raw((response) => {
  response.writeHead(200, { "content-type": "application/json" });
  const more = () => {
    while (!response.destroyed && response.write(Buffer.alloc(65_536, 32)));
  };
  response.on("drain", more);
  more();
});
