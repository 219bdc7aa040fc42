import { afterEach, expect, test } from "vitest";
import { WebSearch } from "../../examples/web-search.js";
import { type Handler, loopbackServer, sendJson } from "../support/loopback-server.js";
import { drop, first, hang, status } from "../support/misbehaviour.js";

// The engine of examples/web-search.ts stands for all that users write.
const correct: Handler = ({ path }, response) => {
  const query = new URL(path, "http://x").searchParams.get("q");
  sendJson(response, {
    results: [
      { url: `http://${query}`, title: query, content: "text" },
      { url: 1, content: null },
    ],
  });
};
const server = loopbackServer(correct);
let search: WebSearch;
afterEach(() => search.close());
function use(handler: Handler = correct, options = {}) {
  server.current.handler = handler;
  search = new WebSearch(server.current.origin, { baseDelayMs: 5, maxDelayMs: 20, ...options });
  return search;
}

test("an engine of one's own has batches, limits and order from the base", async () => {
  const lists = await use().search(["a", "b", "a", " "], 1);
  expect(lists.map((list) => list.map(({ id }) => id))).toEqual([
    ["http://a"],
    ["http://b"],
    ["http://a"],
    [],
  ]);
  expect(server.current.requests).toHaveLength(3);
  expect(server.current.peak).toBeLessThanOrEqual(2);
  expect(search.stats()).toMatchObject({ queries: 4, sent: 3, requests: 3, failures: 0 });
});

test.each([
  ["503", status(503), {}],
  ["a dropped connection", drop, {}],
  ["silence", hang, { timeoutMs: 100 }],
])("%s is repeated", async (_name, misbehave, options) => {
  expect((await use(first(1, misbehave, correct), options).search(["a"], 1))[0]).toHaveLength(1);
  expect(search.stats()).toMatchObject({ retries: 1, failures: 0 });
});

test("errors that it did not declare worth repeating are RETRIEVAL_FAILED at once", async () => {
  await expect(use(status(200, {}, "<html>")).search(["a"], 1)).rejects.toMatchObject({
    code: "RETRIEVAL_FAILED",
  });
  await search.close();
  await expect(use(status(403)).search(["a"], 1)).rejects.toMatchObject({ code: "RETRIEVAL_FAILED" });
  expect(server.current.requests).toHaveLength(2);
});

test("wrong options are refused in its name", () => {
  expect(() => use(correct, { timeoutMs: 0 })).toThrow(/Wrong options of WebSearch: timeoutMs/);
});
