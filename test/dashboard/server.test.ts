import { appendFile, mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { RunsReply } from "../../lib/dashboard/messages.js";
import { findRuns } from "../../lib/dashboard/run-finder.js";
import { type DashboardOptions, DashboardServer, serveDashboard } from "../../lib/dashboard/server.js";
import { scratchFolder } from "../support/scratch-folder.js";
import { evaluationOf, lines, recordOf, stepOf, writeRun } from "./run-files.js";

const scratch = scratchFolder();
const PAGE = { html: "<!doctype html>", script: "1;", style: "a{}" };
let folders = 0;
let server: DashboardServer;
afterEach(() => server?.close());

async function serve(folder: string | string[], options: DashboardOptions = {}): Promise<DashboardServer> {
  server = new DashboardServer([folder].flat(), { port: 0, ...options }, PAGE);
  await server.listen();
  return server;
}

async function get(path: string, headers: Record<string, string> = {}, method = "GET") {
  const response = await fetch(`${server.url}${path}`, { headers, method });
  const text = await response.text();
  const isJson = response.headers.get("content-type") === "application/json" && text !== "";
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it freely
  const body = isJson ? (JSON.parse(text) as any) : text;
  return { status: response.status, headers: response.headers, body };
}

/** A folder with two runs that answered the same questions. */
async function twoRuns(): Promise<string> {
  const folder = scratch(`runs-${folders++}`);
  await writeRun(
    join(folder, "a/grpo"),
    [evaluationOf(0, [0, 0, 1]), stepOf(0), evaluationOf(1, [0, 1, 1])],
    [recordOf("0-0-0"), recordOf("0-0-1", {}, { reward: 1 })],
    { steps: 4, seed: 3, distillation: { term: { weight: 0 } }, participants: { policy: "tiny" } },
  );
  await writeRun(join(folder, "a/hindsearch"), [stepOf(0), evaluationOf(1, [1, 1, 1])], [recordOf("0-0-0")]);
  return folder;
}

test("an onError that throws costs no answer", async () => {
  const folder = await twoRuns();
  const warnings: string[] = [];
  const hear = ({ message }: Error) => void warnings.push(message);
  process.on("warning", hear);
  try {
    await serve(folder, {
      onError: () => {
        throw new Error("from onError");
      },
    });
    await vi.waitFor(async () =>
      expect((await get("/api/trajectories?run=a%2Fgrpo")).body).toMatchObject({ total: 2 }),
    );
    // No longer a file.
    await rm(join(folder, "a/grpo/trajectories.jsonl"));
    await mkdir(join(folder, "a/grpo/trajectories.jsonl"));
    expect((await get("/api/trajectory?run=a%2Fgrpo&id=0-0-0")).status).toBe(500);
    expect((await get("/api/trajectories?run=a%2Fgrpo")).status).toBe(200);
    await vi.waitFor(() => expect(warnings).toHaveLength(2));
    expect(warnings[0]).toMatch(/onError.*from onError/);
  } finally {
    process.off("warning", hear);
  }
});

describe("runs", () => {
  test("overview, curves, comparison, settings", async () => {
    await serve(await twoRuns());
    const { body } = await get("/api/runs");
    expect(body.runs).toMatchObject([
      {
        id: "a/grpo",
        method: "GRPO",
        seed: "3",
        stepsDone: 1,
        steps: 4,
        live: true,
        reward: 0.2,
        exactMatch: [{ mode: "greedy", first: 0.333333, last: 0.666667 }],
        problems: [],
      },
      { id: "a/hindsearch", method: "HindSearch", steps: 20 },
    ]);
    const curves = await get("/api/curves?run=a%2Fgrpo");
    expect(curves.body).toMatchObject({ run: "a/grpo", steps: [0], measures: { reward: [0.2] } });
    const compare = await get("/api/compare?base=a%2Fgrpo&run=a%2Fhindsearch&run=a%2Fgrpo&run=nothing");
    expect(compare.body).toMatchObject({
      base: "a/grpo",
      pairs: [{ run: "a/hindsearch", reason: null, differences: [{ mode: "greedy", x: [1], questions: 3 }] }],
    });
    const config = await get("/api/config?run=a%2Fgrpo");
    expect(JSON.parse(config.body.text)).toMatchObject({ steps: 4 });
  });

  test("are found as they appear and read on as they grow", async () => {
    const folder = scratch(`runs-${folders++}`);
    await mkdir(folder);
    await serve(folder);
    expect((await get("/api/runs")).body.runs).toEqual([]);
    // Another server, so that the five seconds between two looks need not pass.
    await writeRun(join(folder, "late"), [stepOf(0)], [recordOf("0-0-0")]);
    await server.close();
    await serve(folder);
    const ask = async () => (await get("/api/runs")).body as RunsReply;
    expect((await ask()).runs).toMatchObject([{ id: "late", stepsDone: 1 }]);
    await appendFile(join(folder, "late/metrics.jsonl"), lines([stepOf(1)]));
    expect((await ask()).runs).toMatchObject([{ id: "late", stepsDone: 2 }]);
  });

  test("model folders, links and hidden folders are no runs; a run given by itself is one", async () => {
    const folder = await twoRuns();
    await mkdir(join(folder, "model"));
    await writeFile(join(folder, "model/config.json"), "{}");
    await writeRun(join(folder, ".hidden"), [], []);
    await symlink(join(folder, "a"), join(folder, "link"));
    expect((await findRuns([folder])).map(({ id }) => id)).toEqual(["a/grpo", "a/hindsearch"]);
    expect((await findRuns([join(folder, "a/grpo")])).map(({ id }) => id)).toEqual(["grpo"]);
    const both = await findRuns([join(folder, "a"), join(folder, "a/grpo")]);
    expect(both.map(({ id }) => id)).toEqual(["a/grpo", "a/hindsearch", "grpo"]);
    await expect(findRuns([join(folder, "nothing")])).rejects.toMatchObject({ code: "IO" });
  });

  test("damaged files are said, and the rest is shown", async () => {
    const folder = scratch(`runs-${folders++}`);
    await writeRun(join(folder, "broken"), [stepOf(0)], []);
    await writeFile(join(folder, "broken/config.json"), "{");
    await appendFile(join(folder, "broken/metrics.jsonl"), "no JSON\n");
    await serve(folder);
    expect((await get("/api/runs")).body.runs).toMatchObject([
      {
        stepsDone: 1,
        steps: null,
        problems: [expect.stringContaining("config.json"), expect.stringMatching(/^1 of the lines/)],
      },
    ]);
  });

  test("nothing is written to a run", async () => {
    const folder = await twoRuns();
    const look = async () =>
      Promise.all(
        (await readdir(folder, { recursive: true, withFileTypes: true }))
          .filter((entry) => entry.isFile())
          .map(async (entry) => [entry.name, await readFile(join(entry.parentPath, entry.name), "utf8")]),
      );
    const before = await look();
    await serve(folder);
    for (const path of ["runs", "curves?run=a%2Fgrpo", "trajectories?run=a%2Fgrpo"])
      await get(`/api/${path}`);
    await server.close();
    expect(await look()).toEqual(before);
  });
});

describe("trajectories", () => {
  test("a page of the list, and one of them with its group", async () => {
    await serve(await twoRuns());
    const list = async () => (await get("/api/trajectories?run=a%2Fgrpo&filter=failed&limit=1")).body;
    await expect
      .poll(list)
      .toMatchObject({ total: 2, matched: 1, rows: [{ id: "0-0-0", outcome: "mixed" }] });
    const one = await get("/api/trajectory?run=a%2Fgrpo&id=0-0-1");
    expect(one.body).toMatchObject({
      row: { id: "0-0-1", reward: 1 },
      siblings: [{ id: "0-0-0" }, { id: "0-0-1" }],
    });
  });

  test("one that is asked for before the file was read is found", async () => {
    await serve(await twoRuns());
    expect((await get("/api/trajectory?run=a%2Fgrpo&id=0-0-1")).body).toMatchObject({ row: { id: "0-0-1" } });
  });

  test("what is not there is 404", async () => {
    await serve(await twoRuns());
    for (const path of [
      "/api/curves?run=..%2F..%2Fetc",
      "/api/curves",
      "/api/trajectory?run=a%2Fgrpo&id=9-9-9",
      "/api/constructor?run=a%2Fgrpo",
      "/../package.json",
      "/page.js/../../package.json",
      "/dashboard",
    ]) {
      expect([path, (await get(path)).status]).toEqual([path, 404]);
    }
  });
});

describe("who is served", () => {
  test("another host's name, as in DNS rebinding, is refused", async () => {
    await serve(await twoRuns());
    for (const path of ["/", "/api/runs"]) {
      const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
      socket.write(`GET ${path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n`);
      let answer = "";
      for await (const chunk of socket) answer += chunk;
      expect(answer).toMatch(/^HTTP\/1.1 403 /);
    }
  });

  test("pages of other sites are refused, and nothing says that they may read", async () => {
    await serve(await twoRuns());
    const other = await get("/api/runs", { "sec-fetch-site": "cross-site", origin: "https://evil.example" });
    expect(other.status).toBe(403);
    for (const { headers } of [other, await get("/api/runs"), await get("/")]) {
      expect(headers.get("access-control-allow-origin")).toBeNull();
      expect(headers.get("cross-origin-resource-policy")).toBe("same-origin");
    }
  });

  test("there are no routes that write", async () => {
    await serve(await twoRuns());
    for (const method of ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"]) {
      expect([method, (await get("/api/runs", {}, method)).status]).toEqual([method, 405]);
    }
    expect((await get("/api/runs", {}, "HEAD")).body).toBe("");
  });

  test("the policy allows no script but the page's own, no HTML from text and no other address", async () => {
    await serve(await twoRuns());
    const policy = (await get("/")).headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
  });

  test("other addresses need a token, which data is served for and the page is not", async () => {
    await expect(serveDashboard(await twoRuns(), { host: "0.0.0.0", port: 0 })).rejects.toMatchObject({
      code: expect.stringMatching("INVALID_ARGUMENT|IO"),
    });
    await serve(await twoRuns(), { host: "0.0.0.0", token: "a secret" });
    expect((await get("/")).status).toBe(200);
    expect((await get("/api/runs")).status).toBe(401);
    expect((await get("/api/runs", { authorization: "Bearer a secreu" })).status).toBe(401);
    expect((await get("/api/runs", { authorization: "Bearer a secret" })).status).toBe(200);
    expect(new URL(server.address).hash).toBe("#token=a%20secret");
  });

  test.each(["0.0.0.0", "::", "10.0.0.1"])("%s without a token is refused", async (host) => {
    await expect(async () => serve(await twoRuns(), { host })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });

  test("unknown options and a taken port are errors", async () => {
    const folder = await twoRuns();
    await expect(async () => serve(folder, { prot: 1 } as DashboardOptions)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    await expect(async () => serve([])).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await serve(folder);
    const port = Number(new URL(server.url).port);
    await expect(new DashboardServer([folder], { port }, PAGE).listen()).rejects.toMatchObject({
      code: "IO",
    });
  });

  test("the signal closes it", async () => {
    const controller = new AbortController();
    await serve(await twoRuns(), { signal: controller.signal });
    const { url } = server;
    controller.abort();
    await server.close();
    await expect(fetch(url)).rejects.toThrow();
  });
});
