import { describe, expect, test } from "vitest";
import { HttpRetriever, type HttpRetrieverOptions } from "../../lib/retrieval/http.js";
import { type Handler, sendJson } from "../support/loopback-server.js";
import { slow, status } from "../support/misbehaviour.js";
import { correct, hit, KEY, searchService } from "./search-service.js";

const service = searchService();
let retriever: HttpRetriever;
function use(handler: Handler, options: Partial<HttpRetrieverOptions> = {}): HttpRetriever {
  retriever = service.retriever(handler, options);
  return retriever;
}

describe("the protocol", () => {
  test("asks as the reference server needs it and reads its answer", async () => {
    const found = await use(correct).search(["a", "b"], 2);
    expect(found).toEqual([
      [
        { id: "id-a", title: "T id-a", text: "a", score: 2 },
        { id: "other", title: "T other", text: "x", score: 1 },
      ],
      [
        { id: "id-b", title: "T id-b", text: "b", score: 2 },
        { id: "other", title: "T other", text: "x", score: 1 },
      ],
    ]);
    expect(service.server.requests).toHaveLength(1);
    expect(service.server.requests[0]).toMatchObject({
      method: "POST",
      path: "/retrieve",
      body: { queries: ["a", "b"], topk: 2, return_scores: true },
      headers: {
        authorization: `Bearer ${KEY}`,
        "content-type": "application/json",
        "accept-encoding": "identity",
      },
    });
  });

  test("takes documents as strings, numbers as ids, and neither score nor id", async () => {
    const result = [
      [
        { document: '"S"\nstring', score: null },
        { document: { id: 7, contents: "no title" }, extra: 1 },
        { document: { contents: '"W"\nweb' } },
      ],
    ];
    const [list] = await use((_request, response) => sendJson(response, { result, time: 3 })).search(
      ["q"],
      5,
    );
    expect(list).toEqual([
      { id: expect.stringMatching(/^sha256-[0-9a-f]{16}$/), title: "S", text: "string" },
      { id: "7", title: "", text: "no title" },
      { id: expect.stringMatching(/^sha256-[0-9a-f]{16}$/), title: "W", text: "web" },
    ]);
    expect(list?.[0]?.id).not.toBe(list?.[2]?.id);
  });

  test("cuts more hits than asked for, takes fewer and none", async () => {
    const result = [[hit("1", "x"), hit("2", "x"), hit("3", "x")], [hit("4", "x")], []];
    const lists = await use((_request, response) => sendJson(response, { result })).search(
      ["a", "b", "c"],
      2,
    );
    expect(lists.map((list) => list.map(({ id }) => id))).toEqual([["1", "2"], ["4"], []]);
  });

  test("queries without a visible character are not sent", async () => {
    expect(await use(correct).search(["", " \n"], 3)).toEqual([[], []]);
    expect(service.server.requests).toHaveLength(0);
    const lists = await retriever.search(["", "a", " ", "b"], 1);
    expect(lists.map((list) => list.map(({ id }) => id))).toEqual([[], ["id-a"], [], ["id-b"]]);
  });

  test("long queries are cut on a character boundary", async () => {
    await use(correct, { maxQueryLength: 8 }).search(
      ["abcdefg🎬 and more", "12345678", "東京".repeat(100)],
      1,
    );
    expect(service.server.requests[0]?.body.queries).toEqual(["abcdefg", "12345678", "東京東京東京東京"]);
  });

  test("a large but allowed answer comes whole, over many packets", async () => {
    const text = "é".repeat(1_000_000);
    const [list] = await use((_request, response) =>
      sendJson(response, { result: [[hit("1", text)]] }),
    ).search(["q"], 1);
    expect(list?.[0]?.text).toBe(text);
  });
});

describe("batches", () => {
  test("concurrent searches share requests, each query once", async () => {
    use(correct);
    const queries = Array.from({ length: 100 }, (_, i) => `q${i % 40}`);
    const lists = await Promise.all(queries.map((query) => retriever.search([query], 1)));
    expect(lists.map(([list]) => list?.[0]?.id)).toEqual(queries.map((query) => `id-${query}`));
    expect(service.server.requests).toHaveLength(1);
    expect(service.server.requests[0]?.body.queries).toHaveLength(40);
    expect(retriever.stats()).toMatchObject({ queries: 100, sent: 40, requests: 1 });
  });

  test("repeated queries in one search keep their places and their own lists", async () => {
    const lists = await use(correct).search(["a", "b", "a"], 1);
    expect(lists.map((list) => list[0]?.id)).toEqual(["id-a", "id-b", "id-a"]);
    expect(lists[0]).not.toBe(lists[2]);
    expect(service.server.requests[0]?.body.queries).toEqual(["a", "b"]);
  });

  test("are cut at their size and separate by topK", async () => {
    use(correct, { batchSize: 10 });
    const many = retriever.search(
      Array.from({ length: 25 }, (_, i) => `q${i}`),
      2,
    );
    const other = retriever.search(["q0"], 1);
    expect((await many).map((list) => list[0]?.id)).toEqual(Array.from({ length: 25 }, (_, i) => `id-q${i}`));
    expect((await other)[0]).toHaveLength(1);
    const sizes = service.server.requests.map(({ body }) => `${body.queries.length}@${body.topk}`);
    expect(sizes.sort()).toEqual(["10@2", "10@2", "1@1", "5@2"]);
  });

  test("no more requests at a time than allowed; waiting searches fill the next batch", async () => {
    use(slow(30, correct), { concurrency: 2, batchSize: 16 });
    const searches: Promise<unknown>[] = [];
    for (let i = 0; i < 64; i++) {
      searches.push(retriever.search([`q${i}`], 1));
      await new Promise((done) => setTimeout(done, 2));
    }
    await Promise.all(searches);
    expect(service.server.peak).toBe(2);
    expect(service.server.requests.length).toBeLessThan(24);
  });

  test("one query that the server refuses does not fail the others", async () => {
    const picky: Handler = (request, response, index) =>
      (request.body.queries.includes("poison") ? status(422) : correct)(request, response, index);
    use(picky);
    const queries = [...Array.from({ length: 20 }, (_, i) => `q${i}`), "poison"];
    const outcomes = await Promise.allSettled(queries.map((query) => retriever.search([query], 1)));
    expect(outcomes.map(({ status }) => status)).toEqual([...Array(20).fill("fulfilled"), "rejected"]);
    expect(outcomes.at(-1)).toMatchObject({
      reason: { code: "RETRIEVAL_FAILED", message: expect.stringContaining("status 422") },
    });
  });
});

describe("abort", () => {
  test("rejects at once and ends the request", async () => {
    use(() => {});
    const controller = new AbortController();
    const search = retriever.search(["a"], 1, { signal: controller.signal });
    await expect.poll(() => service.server.inFlight).toBe(1);
    controller.abort(new Error("stop"));
    await expect(search).rejects.toMatchObject({ code: "ABORTED", cause: { message: "stop" } });
    await expect.poll(() => service.server.inFlight).toBe(0);
    expect(retriever.stats()).toMatchObject({ failures: 0 });
  });

  test("of one search leaves those that share its request alone", async () => {
    use(slow(50, correct));
    const controller = new AbortController();
    const aborted = retriever.search(["a", "b"], 1, { signal: controller.signal });
    const other = retriever.search(["a"], 1);
    await expect.poll(() => service.server.inFlight).toBe(1);
    controller.abort();
    await expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
    expect((await other)[0]?.[0]?.id).toBe("id-a");
    expect(service.server.requests).toHaveLength(1);
  });

  test("before the request is sent sends nothing, and the next search has its own", async () => {
    use(correct, { batchWindowMs: 30 });
    const controller = new AbortController();
    const aborted = retriever.search(["a"], 1, { signal: controller.signal });
    controller.abort();
    await expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
    expect((await retriever.search(["a"], 1))[0]?.[0]?.id).toBe("id-a");
    expect(service.server.requests).toHaveLength(1);
    await expect(retriever.search(["a"], 1, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "ABORTED",
    });
  });

  test("during a wait for the server", async () => {
    use(status(503, { "retry-after": "60" }));
    const controller = new AbortController();
    const search = retriever.search(["a"], 1, { signal: controller.signal });
    await expect.poll(() => service.server.requests.length).toBe(1);
    controller.abort();
    await expect(search).rejects.toMatchObject({ code: "ABORTED" });
  });
});

describe("options", () => {
  test.each<[string, Record<string, unknown>]>([
    ["url", { url: "file:///etc/passwd" }],
    ["url", { url: "localhost" }],
    ["url", { url: "http://user:password@127.0.0.1/" }],
    ["timeoutMs", { timeoutMs: 0 }],
    ["batchSize", { batchSize: 0.5 }],
    ["concurrency", { concurrency: Number.NaN }],
    ["maxRetryAfterMs", { maxRetryAfterMs: 2 ** 40 }],
    ["apiKey", { apiKey: 12345678 }],
    ["timeoutMS", { timeoutMS: 3 }],
  ])("wrong %s is refused by name and not printed", (name, options) => {
    const make = () => new HttpRetriever({ url: "http://127.0.0.1/", ...options } as HttpRetrieverOptions);
    expect(make).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", message: expect.stringContaining(name) }),
    );
    expect(make).toThrow(
      expect.not.objectContaining({ message: expect.stringMatching(/password@|12345678/) }),
    );
  });

  test("a wrong topK is refused", async () => {
    await expect(use(correct).search(["a"], 0)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("closing waits for running searches and refuses later ones", async () => {
    use(slow(30, correct));
    const running = retriever.search(["a"], 1);
    const closing = retriever.close();
    await expect(retriever.search(["b"], 1)).rejects.toMatchObject({ code: "DISPOSED" });
    await closing;
    expect((await running)[0]).toHaveLength(1);
  });
});
