// A whole small training against servers that fail and then work, and that repeat every secret which they are sent, in
// every form and wherever they can; then every client against every way of failing. Writes what a program could log to
// REPORT. Whoever starts it looks for the secrets in all that is left behind.
import { readFile, writeFile } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { inspect } from "node:util";
import {
  TINY_PROTOCOL,
  TINY_QUESTIONS,
  TINY_RETRIEVER,
  warmPolicy,
} from "../../examples/own-loop/tiny-world.js";
import { ChatJudge } from "../../lib/judge/chat.js";
import { recordedJudge } from "../../lib/replay/recorded-judge.js";
import { recordedRetriever } from "../../lib/replay/recorded-retriever.js";
import { ReplayCache } from "../../lib/replay/replay-cache.js";
import { HttpEmbedding } from "../../lib/retrieval/embedding/http.js";
import { ElasticsearchRetriever } from "../../lib/retrieval/engines/elasticsearch.js";
import { McpRetriever } from "../../lib/retrieval/engines/mcp.js";
import { OpenSearchRetriever } from "../../lib/retrieval/engines/opensearch.js";
import { PostgresRetriever } from "../../lib/retrieval/engines/postgres.js";
import { QdrantRetriever } from "../../lib/retrieval/engines/qdrant.js";
import { HttpRetriever } from "../../lib/retrieval/http.js";
import { formatContents } from "../../lib/retrieval/passage.js";
import { RerankedRetriever } from "../../lib/retrieval/reranked.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";
import { completion, INPUT, marked } from "../judge/chat-service.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { type Handler, LoopbackServer, type ReceivedRequest, sendJson } from "../support/loopback-server.js";
import { status } from "../support/misbehaviour.js";
import { asciiCanary, canary } from "./canary.js";

const [folder = ""] = process.argv.slice(2);
const report: string[] = [];
const seen = new Set<string>();

/** Everything that a logger could make of a value. */
function note(what: string, value: unknown): void {
  report.push(what, inspect(value, { depth: 20, showHidden: true, getters: true }), `${value}`);
  report.push(JSON.stringify(value, (_key, inner) => (typeof inner === "bigint" ? `${inner}` : inner)) ?? "");
  for (let error = value; error instanceof Error; error = error.cause) {
    const fields = Object.getOwnPropertyNames(error).map((name) => [name, Reflect.get(error as Error, name)]);
    report.push(error.stack ?? "", error.message, inspect(fields, { depth: 20, showHidden: true }));
  }
}

/** All that a request holds in secrets, in every form that a server could give it. */
function echo({ headers, path }: ReceivedRequest): string {
  const { authorization = "", cookie = "", "api-key": key, "x-extra": extra } = headers;
  const [, token = ""] = /^\w+ (.*)/.exec(authorization) ?? [];
  const [, session = ""] = /session=(.*)/.exec(cookie) ?? [];
  const login = authorization.startsWith("Basic") ? Buffer.from(token, "base64").toString() : "";
  const password = login.slice(login.indexOf(":") + 1);
  const fields = path.split(/[?&]/).flatMap((pair) => pair.split("=").slice(1).join("="));
  const meant = new URL(path, "http://x").searchParams.values();
  return [authorization, token, login, password, cookie, session, path, ...fields, ...meant, key, extra]
    .flatMap((value) => value || [])
    .flatMap((value) => {
      seen.add(value);
      const bytes = Buffer.from(value);
      return [
        value,
        encodeURIComponent(value),
        encodeURIComponent(value).replace(/%../g, (code) => code.toLowerCase()),
        new URLSearchParams([["", value]]).toString().slice(1),
        bytes.toString("base64"),
        bytes.toString("base64url"),
        JSON.stringify(value),
      ];
    })
    .join(" ");
}
/** For headers: without the words that they cannot hold. */
const inHeader = (text: string) => text.replaceAll(/\S*[^\x20-\x7e]\S*/g, "");

const FAILURES: readonly Handler[] = [
  (request, response) => void response.writeHead(503).end(echo(request)),
  (request, response) =>
    sendJson(response, { error: { message: echo(request), detail: [echo(request)] } }, 401),
  (request, response) => sendJson(response, { status: { error: echo(request) } }, 400),
  (request, response) => void response.end(`<html>${echo(request)}`),
  (request, response) => sendJson(response, { detail: echo(request), result: echo(request) }),
  (request, response) =>
    void response.writeHead(200, { "content-type": "application/json" }).end(`{"a": ${echo(request)}`),
  (request, response) =>
    void response.writeHead(200, { "content-type": inHeader(echo(request)).slice(0, 4000) }).end("x"),
  (request, response) =>
    void response
      .writeHead(302, { location: `http://x.invalid/${inHeader(echo(request)).slice(0, 4000)}` })
      .end(),
  (request, { socket }) => void socket?.end(echo(request)),
  (request, { socket }) => void socket?.end(`HTTP/1.1 200 OK\r\n${inHeader(echo(request))}\r\n\r\n`),
  (request, response) =>
    void response
      .writeHead(429, {
        "retry-after": "0.001",
        warning: `299 - "${inHeader(echo(request)).slice(0, 2000)}"`,
        "www-authenticate": `Bearer error="${inHeader(echo(request)).slice(0, 2000)}"`,
      })
      .end(),
  status(200, { "content-encoding": "gzip" }, "x"),
];
const fails: Handler = (request, response, index) => {
  response.setHeader("x-elastic-product", "Elasticsearch");
  return FAILURES[index % FAILURES.length]?.(request, response, index);
};

const works: Handler = async (request, response) => {
  if (request.path.startsWith("/retrieve")) {
    const lists = await TINY_RETRIEVER.search(request.body.queries, request.body.topk);
    const result = lists.map((list) =>
      list.map(({ id, title, text }) => ({
        document: {
          id: `${id} ${echo(request)}`,
          contents: formatContents({ title: `${title} ${echo(request)}`, text }),
        },
      })),
    );
    return sendJson(response, { result });
  }
  const [, name] = request.body.messages[1].content.match(/colour of (\w+)/);
  sendJson(response, completion(marked(request, `colour of ${name}, key ${echo(request)}`)));
};
/** For each path all faults, then what works. */
const asked = new Map<string, number>();
const failing: Handler = (request, response) => {
  const [path = ""] = request.path.split("?");
  const index = asked.get(path) ?? 0;
  asked.set(path, index + 1);
  return (index < FAILURES.length ? fails : works)(request, response, index);
};

const extra = { "x-extra": asciiCanary("header"), cookie: `theme=dark; session=${asciiCanary("cookie")}` };
const query = `api_key=${encodeURIComponent(canary("query"))}&sig=${canary("raw").replace("é", "")}%2fx&x`;
const fast = { retries: 1, baseDelayMs: 1, timeoutMs: 2000, breakerOpenMs: 1 };

/** A run of two steps with records, logs and checkpoints. */
async function train(origin: string, mode: "record" | "replay", run: string): Promise<void> {
  const cache = new ReplayCache({ folder: `${folder}/records`, mode, secrets: Object.values(extra) });
  const http = new HttpRetriever({ url: `${origin}/retrieve?${query}`, headers: extra, ...fast });
  const chat = new ChatJudge({
    baseURL: `${origin}/v1?${query}`,
    model: "m",
    tokenizer: byteTokenizer(),
    headers: extra,
    structured: "never",
    checks: { language: false, topic: false },
    ...fast,
  });
  using policy = await warmPolicy();
  const trainer = new HindSearchTrainer({
    policy,
    retriever: recordedRetriever(http, cache, { identity: "tiny" }),
    judge: recordedJudge(chat, cache),
    questions: TINY_QUESTIONS,
    protocol: TINY_PROTOCOL,
    steps: 2,
    questionsPerStep: 6,
    groupSize: 5,
    decoder: { cacheTokens: 8192 },
    measureEvery: 1,
    seed: 3,
    search: { maxFailedShare: 1, outage: "fail" },
    runFolder: `${folder}/${run}`,
    checkpointEvery: 1,
  });
  note("plan", trainer.plan());
  for await (const { metrics, groups } of trainer) {
    note("metrics", metrics);
    for (const { trajectory, critique } of groups.flat())
      note("trajectory", [trajectory.searches, trajectory.reason, critique]);
  }
  note("clients", [http, chat, cache, http.stats(), chat.stats(), chat.identity, cache.stats()]);
  await http.close();
}

/** A PostgreSQL server that repeats the password which it asks for. */
async function postgres(): Promise<Server> {
  const server = createServer((socket: Socket) => {
    socket.on("error", () => {});
    socket.on("data", (data) => {
      if (data[0] !== 0x70) return void socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]));
      const password = data.subarray(5, -1).toString();
      seen.add(password);
      const fields = `SFATAL\0VFATAL\0C28P01\0Mwrong ${password} ${encodeURIComponent(password)}\0\0`;
      const length = Buffer.alloc(4);
      length.writeInt32BE(4 + Buffer.byteLength(fields));
      socket.end(Buffer.concat([Buffer.from("E"), length, Buffer.from(fields)]));
    });
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  return server;
}

/** Every client with its secrets, each in another place. */
const clients = (origin: string, port: number) => {
  const embedding = {
    name: "one",
    embed: async (texts: readonly string[]) => texts.map(() => Float32Array.of(1)),
  };
  const login = `u:${encodeURIComponent(canary("string"))}@127.0.0.1:${port}`;
  return [
    new HttpRetriever({ url: `${origin}/retrieve?${query}`, headers: extra, ...fast }),
    new HttpRetriever({
      url: `${origin}/batch_search`,
      dialect: "flashrag",
      headers: { authorization: `Bearer ${asciiCanary("bearer")}` },
      ...fast,
    }),
    new HttpRetriever({
      url: `${origin}/retrieve`,
      headers: { authorization: `Basic ${Buffer.from(`u:${canary("basic")}`).toString("base64")}` },
      ...fast,
    }),
    new ElasticsearchRetriever({ url: origin, index: "i", ...fast }),
    new ElasticsearchRetriever({
      url: origin,
      index: "i",
      username: "u",
      password: canary("elastic"),
      ...fast,
    }),
    new OpenSearchRetriever({ url: origin, index: "i", username: "u", ...fast }),
    new QdrantRetriever({ url: origin, collection: "c", embedding, ...fast }),
    // It waits for what is no answer in its protocol.
    new McpRetriever({
      server: { url: `${origin}/mcp?${query}`, headers: extra },
      tool: "t",
      ...fast,
      timeoutMs: 200,
    }),
    new PostgresRetriever({ connection: { host: "127.0.0.1", port, user: "u", database: "d" }, ...fast }),
    new PostgresRetriever({ connection: { connectionString: `postgresql://${login}/d` }, ...fast }),
    new PostgresRetriever({
      connection: {
        connectionString: `postgresql://u@127.0.0.1:${port}/d?password=${encodeURIComponent(canary("pgquery"))}`,
      },
      ...fast,
    }),
    new RerankedRetriever(TINY_RETRIEVER, { url: `${origin}/rerank?${query}`, headers: extra, ...fast }),
    {
      model: new HttpEmbedding({
        url: `${origin}/v1/embeddings?${query}`,
        model: "m",
        headers: extra,
        ...fast,
      }),
      search() {
        return this.model.embed(["a"], "query");
      },
      close() {
        return this.model.close();
      },
    },
    {
      judge: new ChatJudge({
        baseURL: `${origin}/v1?${query}`,
        model: "m",
        tokenizer: byteTokenizer(),
        headers: extra,
        ...fast,
      }),
      async search() {
        note("critique", await this.judge.critique(INPUT));
        throw new Error("as expected");
      },
      async close() {},
    },
  ];
};

/** Options that are refused, with secrets in them. */
function mistakes(): void {
  const secret = asciiCanary("mistake");
  const wrong: [string, () => unknown][] = [
    [
      "login in an address",
      () => new HttpRetriever({ url: `http://u:${encodeURIComponent(secret)}@127.0.0.1/` }),
    ],
    ["an address that is none", () => new HttpRetriever({ url: `127.0.0.1/?key=${secret}` })],
    [
      "a key that is no text",
      () => new HttpRetriever({ url: "http://127.0.0.1", apiKey: [secret] as never }),
    ],
    [
      "a judge",
      () => new ChatJudge({ baseURL: `http://u:${encodeURIComponent(secret)}@h/`, model: "m" } as never),
    ],
    [
      "percent signs",
      () => new PostgresRetriever({ connection: { connectionString: `postgresql://u:%${secret}@h/d` } }),
    ],
  ];
  for (const [what, make] of wrong) {
    try {
      note(what, make());
    } catch (error) {
      note(what, error);
    }
  }
}

const server = await LoopbackServer.start(failing);
await train(server.origin, "record", "run");
await train(server.origin, "replay", "replayed");

server.handler = fails;
const outage = new HindSearchTrainer({
  policy: await warmPolicy(),
  retriever: new HttpRetriever({ url: `${server.origin}/retrieve?${query}`, headers: extra, ...fast }),
  questions: TINY_QUESTIONS,
  protocol: TINY_PROTOCOL,
  steps: 1,
  questionsPerStep: 6,
  groupSize: 5,
  decoder: { cacheTokens: 8192 },
  search: { outage: "fail" },
  runFolder: `${folder}/outage`,
});
try {
  for await (const _ of outage);
  report.push("the outage went unnoticed");
} catch (error) {
  note("outage", error);
}

await using database = {
  server: await postgres(),
  [Symbol.asyncDispose]: async () => void database.server.close(),
};
const { port } = database.server.address() as { port: number };
for (const client of clients(server.origin, port)) {
  for (let attempt = 0; attempt < FAILURES.length; attempt++) {
    try {
      await client.search(["ann"], 1);
      report.push(`${client.constructor.name} did not fail`);
    } catch (error) {
      note(client.constructor.name, error);
    }
  }
  note("client", client);
  await client.close();
}
mistakes();
await server[Symbol.asyncDispose]();
await writeFile(`${folder}/report.txt`, report.join("\n"));
// Which secrets the servers were really sent, by the names of their places alone.
const places = [...seen].flatMap((value) => /canary-([a-z]+)/.exec(decodeURIComponentOr(value))?.[1] ?? []);
await writeFile(`${folder}/places.json`, JSON.stringify([...new Set(places)].sort()));
console.log(`metrics: ${(await readFile(`${folder}/run/metrics.jsonl`, "utf8")).split("\n").length}`);

function decodeURIComponentOr(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
