import { mkdir, readdir, readFile, rm, symlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { builtPackage } from "../../support/built-package.js";

const root = resolve(import.meta.dirname, "../../..");
const built = builtPackage();
const address = { url: "http://127.0.0.1:9", index: "x" };
const engines = [
  ["PostgresRetriever", {}, "pg"],
  ["ElasticsearchRetriever", address, "@elastic/elasticsearch"],
  ["OpenSearchRetriever", address, "@opensearch-project/opensearch"],
  ["McpRetriever", { server: { command: "true" }, tool: "search" }, "@modelcontextprotocol/sdk"],
  ["QdrantRetriever", { url: address.url, collection: "x" }, "@qdrant/js-client-rest"],
] as const;

/** All packages but the clients, and those in a scope of their own. */
beforeAll(async () => {
  const modules = join(built.folder, "node_modules");
  await rm(modules);
  await mkdir(modules);
  for (const entry of await readdir(join(root, "node_modules"))) {
    if (engines.some(([, , client]) => client.split("/")[0] === entry) || entry.startsWith(".")) continue;
    await symlink(join(root, "node_modules", entry), join(modules, entry));
  }
});

test("without its client an engine says what to install; the package loads", async () => {
  const { stdout, stderr } = await built.run(`
    import * as hindsearch from "hindsearch";
    for (const [name, options] of ${JSON.stringify(engines)}) {
      const embedding = name === "QdrantRetriever" && { embedding: { embed: async () => [Float32Array.of(1)] } };
      const retriever = new hindsearch[name]({ ...options, ...embedding });
      await retriever.search(["x"], 1).catch((error) => console.log(error.code, error.message));
      await retriever.close();
    }`);
  expect(stderr).toBe("");
  const lines = stdout.trim().split("\n");
  const { peerDependencies, peerDependenciesMeta } = JSON.parse(
    await readFile(join(root, "package.json"), "utf8"),
  );
  expect(lines).toHaveLength(engines.length);
  for (const [i, [name, , client]] of engines.entries()) {
    expect(lines[i]).toMatch(new RegExp(`^DEPENDENCY_MISSING ${name} `));
    const latest = peerDependencies[client].split(" || ").at(-1);
    expect(lines[i]).toContain(`Run "npm install ${client}@${latest}"`);
    expect(peerDependenciesMeta[client]).toEqual({ optional: true });
  }
});
