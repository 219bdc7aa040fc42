// Credentials, and with them queries and prompts, go to the address that was given and nowhere else.
import { afterEach, describe, expect, test, vi } from "vitest";
import { HttpRetriever } from "../../lib/retrieval/http.js";
import { LoopbackServer } from "../support/loopback-server.js";
import { status } from "../support/misbehaviour.js";
import { ENDPOINTS, REDIRECTS } from "./endpoints.js";

const SECRET = "canary-5f2c9a-of-the-environment";
afterEach(() => vi.unstubAllEnvs());

describe.each(ENDPOINTS)("$name", ({ variable, header, sent, follows = [], ask }) => {
  test.each(REDIRECTS)("a redirect with status %d to another host is not followed", async (code) => {
    vi.stubEnv(variable, SECRET);
    await using other = await LoopbackServer.start(status(404));
    await using server = await LoopbackServer.start(status(code, { location: `${other.origin}/here` }));
    await expect(ask(server.origin)).rejects.toMatchObject({ message: expect.stringContaining(`${code}`) });
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]?.headers[header]).toBe(sent(SECRET));
    expect(other.requests).toEqual([]);
  });

  test.each(REDIRECTS)("a redirect with status %d to the same host", async (code) => {
    vi.stubEnv(variable, SECRET);
    await using server = await LoopbackServer.start((request, response, index) =>
      status(request.path === "/elsewhere" ? 404 : code, { location: "/elsewhere" })(
        request,
        response,
        index,
      ),
    );
    await expect(ask(server.origin)).rejects.toBeDefined();
    const elsewhere = server.requests.filter(({ path }) => path === "/elsewhere");
    expect(elsewhere).toHaveLength(follows.includes(code) ? 1 : 0);
  });

  test("the secret of an option wins over the environment's, and no other variable is read", async () => {
    for (const { variable: any } of ENDPOINTS) vi.stubEnv(any, "canary-of-another-service");
    for (const any of ["OPENAI_API_KEY", "ELASTIC_API_KEY", "QDRANT_API_KEY", "HF_TOKEN"]) {
      vi.stubEnv(any, "canary-of-another-service");
    }
    await using server = await LoopbackServer.start(status(404));
    await expect(ask(server.origin, SECRET)).rejects.toBeDefined();
    expect(server.requests[0]?.headers[header]).toBe(sent(SECRET));
    expect(JSON.stringify(server.requests)).not.toContain("canary-of-another-service");
  });

  test("without one nothing is sent", async () => {
    vi.stubEnv(variable, "");
    await using server = await LoopbackServer.start(status(404));
    await expect(ask(server.origin)).rejects.toBeDefined();
    const { authorization = "Bearer none", "api-key": key } = server.requests[0]?.headers ?? {};
    expect([authorization, key]).toEqual(["Bearer none", undefined]);
  });
});

test("an authorization header of one's own wins over the environment", async () => {
  vi.stubEnv("HINDSEARCH_RETRIEVER_API_KEY", "canary-of-the-environment");
  await using server = await LoopbackServer.start(status(404));
  const url = `${server.origin}/retrieve`;
  const retriever = new HttpRetriever({ url, headers: { Authorization: "Token of-one's-own" } });
  await expect(retriever.search(["a"], 1)).rejects.toBeDefined();
  await retriever.close();
  expect(server.requests[0]?.headers.authorization).toBe("Token of-one's-own");
});
