import { gzipSync } from "node:zlib";
import type { ChatJudgeOptions } from "../../lib/judge/chat.js";
import type { Critique } from "../../lib/judge/critique.js";
import { completion, correct, marked, says, TEXT } from "../judge/chat-service.js";
import type { Handler, ReceivedRequest } from "../support/loopback-server.js";
import {
  bomb,
  breakOff,
  breakOffChunked,
  drop,
  flood,
  floodHeaders,
  floodWith,
  hang,
  json,
  nested,
  notHttp,
  raw,
  reset,
  slow,
  status,
  text,
  trickle,
  trickleHeaders,
  twice,
} from "../support/misbehaviour.js";
import type { Fate } from "./retrieval-faults.js";

/** What of a fault is counted as used up: what the server says, the most that it can be, or nothing. */
export type Charge = "as told" | "its most" | "nothing";

/** A row of the table: a way in which a judge's server or model misbehaves, and what comes of it. */
export interface JudgeFault {
  fault: string;
  /** What the table says of it together with the rows that follow. */
  together?: string;
  serve: Handler;
  /** `halved` here: asked once more with four times the tokens. */
  fate: Exclude<Fate, "later" | "halved"> | "asked once more" | "not asked";
  wait?: { words: string; least: number };
  /** Of the critique. */
  status: Critique["status"];
  /** What its reason says, or what is used of the answer. */
  says: string;
  /** For each request. */
  charge: Charge;
  /** If the case needs another one. */
  timeoutMs?: number;
  options?: Partial<ChatJudgeOptions>;
}

/** Settings of the tests; the text of the table has the defaults. */
export const SETTINGS = {
  retries: 2,
  baseDelayMs: 20,
  timeoutMs: 10_000,
  maxResponseBytes: 1_000_000,
  maxRetryAfterMs: 60_000,
} satisfies Partial<ChatJudgeOptions>;

const BACK_OFF = { words: "after back-off", least: SETTINGS.baseDelayMs / 2 };
/** Of faults that end with it; the others are not to run into it on a busy machine. It begins before the request arrives. */
const TIMEOUT = 400;
const TIMED_OUT = { words: "after `timeoutMs` and back-off", least: TIMEOUT / 2 };

const repeated = (says: string, charge: Charge, wait = BACK_OFF) =>
  ({ fate: "repeated", status: "failed", says, charge, wait }) as const;
const silent = (fault: string, serve: Handler) => ({
  ...{ fault, serve, timeoutMs: TIMEOUT },
  ...repeated("no complete answer within", "its most", TIMED_OUT),
});
const final = (says: string, charge: Charge) => ({ fate: "final", status: "failed", says, charge }) as const;
const passes = (says: string, charge: Charge = "as told") =>
  ({ fate: "passes", status: "ok", says, charge }) as const;
/** An answer that costs what it costs and is no critique. */
const replied = (status: Critique["status"], says: string) =>
  ({ fate: "final", status, says, charge: "as told" }) as const;

const broken = (words: string, misbehave: Handler) => ({
  fault: words,
  serve: misbehave,
  ...repeated("connection failed", "its most"),
});
const good = (request: ReceivedRequest) => completion(marked(request, TEXT));
const date = (milliseconds: number) => new Date(Date.now() + milliseconds).toUTCString();

export const JUDGE_FAULTS: readonly JudgeFault[] = [
  // The connection.
  broken("the connection is closed before an answer", drop),
  broken("the connection is reset in the middle of the body", reset),
  broken("the body ends before its `Content-Length`", breakOff),
  broken("a chunked body ends without its last chunk", breakOffChunked),
  broken("something that is no HTTP", notHttp),
  silent("no answer", hang),
  silent("a body that drips for ever", trickle),
  silent("headers that drip for ever", trickleHeaders),
  {
    fault: "a late answer, within `timeoutMs`",
    serve: slow(TIMEOUT, correct),
    ...passes("the critique"),
  },
  // Refusals.
  ...[408, 409, 429, 500, 502, 503, 504, 529].map((code) => ({
    fault: `status ${code}`,
    together: "status 408, 409, 429, 500 to 599",
    serve: status(code),
    ...repeated(`status ${code}`, "nothing"),
  })),
  {
    fault: "status 503 with a body without end",
    serve: floodWith(503),
    ...repeated("status 503", "nothing"),
  },
  ...[429, 503].map((code) => ({
    fault: `status ${code} with \`Retry-After\` in seconds`,
    together: "the same with `Retry-After` in seconds",
    serve: status(code, { "retry-after": "0.3" }),
    ...repeated(`status ${code}`, "nothing", { words: "after that time, all calls", least: 299 }),
  })),
  {
    fault: "status 429 with `Retry-After` as a date",
    serve: (_request, response) => void response.writeHead(429, { "retry-after": date(2000) }).end(),
    ...repeated("status 429", "nothing", { words: "at that date, all calls", least: 900 }),
  },
  {
    fault: "status 429 with `Retry-After: 0` or a date in the past",
    serve: (_request, response, index) =>
      void response.writeHead(429, { "retry-after": index % 2 === 0 ? "0" : date(-60_000) }).end(),
    ...repeated("status 429", "nothing"),
  },
  {
    fault: "status 429 with a `Retry-After` that means nothing",
    serve: status(429, { "retry-after": "soon" }),
    ...repeated("status 429", "nothing"),
  },
  {
    fault: "status 429 with a longer `Retry-After` than `maxRetryAfterMs`",
    serve: status(429, { "retry-after": "900" }),
    ...final("the server asks to wait 900 s", "nothing"),
  },
  ...[400, 401, 403, 404, 405, 413, 422].map((code) => ({
    fault: `status ${code}`,
    together: "any other status of 400 to 499",
    serve: status(code),
    ...final(`status ${code}`, "nothing"),
  })),
  {
    fault: "a redirect, to the same host or another",
    serve: (_request, response, index) =>
      void response
        .writeHead(index % 2 === 0 ? 307 : 302, {
          location: index % 2 === 0 ? "/v1/elsewhere" : "http://127.0.0.1:9/",
        })
        .end(),
    ...final("redirect", "nothing"),
  },
  // Answers that are no chat completion.
  {
    fault: "an HTML page with status 200",
    serve: text("<html>maintenance</html>", "text/html"),
    ...repeated("no chat completion", "its most"),
  },
  {
    fault: "JSON that is cut off",
    serve: text('{"choices": [{"mess'),
    ...repeated("broken JSON", "its most"),
  },
  { fault: "an empty body with status 200", serve: text(""), ...repeated("status 200", "its most") },
  {
    fault: "JSON of another form",
    serve: json({ error: { message: "loading" } }),
    ...repeated("no chat completion", "its most"),
  },
  { fault: "no choices", serve: json({ choices: [] }), ...repeated("no chat completion", "its most") },
  {
    fault: "content that is no text",
    serve: json(completion([{ type: "text" }] as never)),
    ...repeated("no chat completion", "its most"),
  },
  { fault: "JSON nested 200,000 deep", serve: nested, ...repeated("no chat completion", "its most") },
  { fault: "a body without end", serve: flood, ...final("more than maxResponseBytes", "its most") },
  { fault: "a compressed bomb", serve: bomb, ...final("more than maxResponseBytes", "its most") },
  { fault: "headers without end", serve: floodHeaders, ...final("headers are too large", "its most") },
  // Answers with something odd.
  {
    fault: "a compressed answer",
    serve: (request, response) =>
      void response
        .writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" })
        .end(gzipSync(JSON.stringify(good(request)))),
    ...passes("the critique"),
  },
  {
    fault: "more choices than asked for",
    serve: (request, response, index) => {
      const { choices, ...rest } = good(request);
      json({ ...rest, choices: [...choices, ...completion("[[critique 000000]]Another.").choices] })(
        request,
        response,
        index,
      );
    },
    ...passes("the first"),
  },
  { fault: "the whole answer twice", serve: twice(good), ...passes("the first") },
  {
    fault: "no `usage`, or one that counts backwards",
    serve: (request, response, index) =>
      json({ ...good(request), usage: index % 2 === 0 ? null : { prompt_tokens: -5, completion_tokens: 1 } })(
        request,
        response,
        index,
      ),
    ...passes("the critique", "its most"),
  },
  // Replies that are no critique.
  {
    fault: "a refusal in the API's field",
    serve: json(completion(null, "stop", { refusal: "I can't help with that." })),
    ...replied("refused", "declined through its API"),
  },
  {
    fault: "the content filter",
    serve: json(completion("", "content_filter")),
    ...replied("refused", "declined through its API"),
  },
  {
    fault: "a refusal in words",
    serve: json(completion("I'm sorry, but I cannot assist with that.")),
    ...replied("refused", "begins like a refusal"),
  },
  { fault: "no content", serve: json(completion(null)), ...replied("empty", "the reply is empty") },
  { fault: "white space", serve: json(completion(" \n\t ")), ...replied("empty", "the reply is empty") },
  {
    fault: "a tool call",
    serve: json(completion(null, "tool_calls")),
    ...replied("empty", "the reply is empty"),
  },
  { fault: "nothing between the marks", serve: says(" "), ...replied("empty", "the critique is empty") },
  {
    fault: "no marks, or no JSON object where one was asked for",
    serve: json(completion("Search the director.")),
    ...replied("unparsable", "has no marked critique"),
  },
  {
    fault: '`finish_reason: "length"` before the critique was complete',
    serve: json(completion("Let me think", "length")),
    ...replied("truncated", "ended at its token limit"),
    fate: "asked once more",
  },
  { fault: "10 characters or fewer", serve: says("Search it."), ...replied("too-short", "10 characters") },
  {
    fault: "another script than the question's",
    serve: says("Ищите режиссёра фильма Jaws."),
    ...replied("wrong-language", "a script that the question has not"),
  },
  {
    fault: "an answer to another question",
    serve: says("Search the population of Ulan Bator."),
    ...replied("off-topic", "names nothing that the trajectory is about"),
  },
  {
    fault: 'the gold answer, under `leak: "drop"`',
    serve: says("Search for hospitals in Cincinnati first."),
    ...replied("leaked", "states a gold answer"),
    options: { leak: "drop" },
  },
  {
    fault: 'the gold answer twice, under `leak: "ask-again"`',
    serve: says("Search for hospitals in Cincinnati first."),
    ...replied("leaked", "also when asked again"),
    fate: "asked once more",
    options: { leak: "ask-again" },
  },
  {
    fault: "a budget that does not allow another request",
    serve: correct,
    ...replied("budget-spent", "does not allow another request"),
    fate: "not asked",
    charge: "nothing",
    options: { budget: { tokens: 100 } },
  },
  {
    fault: "a body of bytes that are no UTF-8",
    serve: raw((response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(Buffer.from([0x22, 0xff, 0x22]));
    }),
    ...repeated("no chat completion", "its most"),
  },
];
