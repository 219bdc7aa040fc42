// Nothing that a run leaves behind holds a secret: see secrets-child.ts.
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { asciiCanary, canariesIn, canary } from "./canary.js";
import { ENDPOINTS } from "./endpoints.js";

/** Their values are sent in headers, but for the password, which travels as base64. */
const SECRETS: Record<string, string> = {
  ...Object.fromEntries(
    ENDPOINTS.map(({ name, variable }) => [
      variable,
      variable.endsWith("PASSWORD")
        ? canary("opensearch")
        : asciiCanary(name.toLowerCase().replace(/[^a-z]/g, "")),
    ]),
  ),
  PGPASSWORD: canary("pgpassword"),
  OPENAI_API_KEY: asciiCanary("foreign"),
  HINDSEARCH_SERVER_TOKEN: asciiCanary("token"),
};

let folder = "";
let output = { stdout: "", stderr: "" };
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-secrets-"));
  const child = resolve(import.meta.dirname, "secrets-child.ts");
  output = await promisify(execFile)(process.execPath, ["--import", "tsx", child, folder], {
    env: { ...process.env, ...SECRETS, OPENAI_LOG: "debug", NODE_OPTIONS: "" },
    maxBuffer: 2 ** 28,
  });
}, 120_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

async function filesBelow(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

describe("a whole small training and every failing client", () => {
  test("the servers were sent every secret, so that they could be repeated", async () => {
    const places = JSON.parse(await readFile(join(folder, "places.json"), "utf8"));
    expect(places).toEqual(
      [
        ...["basic", "bearer", "cookie", "elastic", "elasticsearch", "embedding", "header", "judge", "mcp"],
        ...[
          "flashrag",
          "opensearch",
          "pgpassword",
          "pgquery",
          "qdrant",
          "query",
          "raw",
          "reranker",
          "string",
        ],
      ].sort(),
    );
  });

  test("left what it should: logs, records, checkpoints, errors", async () => {
    const files = (await filesBelow(folder)).map((path) => relative(folder, path));
    for (const name of [
      "run/metrics.jsonl",
      "run/trajectories.jsonl",
      "run/config.json",
      "replayed/metrics.jsonl",
    ]) {
      expect(files).toContain(name);
    }
    expect(files.filter((name) => name.startsWith("records/retrieval/")).length).toBeGreaterThan(3);
    expect(files.filter((name) => name.startsWith("records/judge/")).length).toBeGreaterThan(3);
    expect(files.filter((name) => /checkpoints.*safetensors/.test(name)).length).toBeGreaterThan(0);
    const report = await readFile(join(folder, "report.txt"), "utf8");
    expect(report).toContain("RETRIEVAL_FAILED");
    expect(report).not.toMatch(/went unnoticed|did not fail/);
    expect(output.stdout).toMatch(/metrics: 3/);
  });

  test("no secret in what it printed, also with the clients' logs switched on", () => {
    expect(canariesIn(output.stdout)).toEqual([]);
    expect(canariesIn(output.stderr)).toEqual([]);
  });

  test("no secret in any file, be it as it is, percent-encoded or in base64", async () => {
    const found: string[] = [];
    for (const path of await filesBelow(folder)) {
      if (path.endsWith("places.json")) continue;
      for (const place of [
        relative(folder, path),
        await readFile(path, "latin1"),
        await readFile(path, "utf8"),
      ])
        found.push(...canariesIn(place).map((form) => `${relative(folder, path)}: ${form}`));
    }
    expect(found).toEqual([]);
  });
});

test("the search for secrets finds them in every form", () => {
  const secret = canary("test");
  for (let offset = 0; offset < 3; offset++) {
    const bytes = Buffer.from(`${"x".repeat(offset)}${secret}yz`);
    for (const form of [bytes.toString("base64"), bytes.toString("base64url")]) {
      expect(canariesIn(`a ${form} b`).length).toBeGreaterThan(0);
    }
  }
  expect(canariesIn(encodeURIComponent(secret)).length).toBeGreaterThan(0);
  expect(canariesIn(secret.slice(-12)).length).toBeGreaterThan(0);
  expect(canariesIn("nothing of the kind")).toEqual([]);
});
