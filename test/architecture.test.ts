import { readdir, readFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, test } from "vitest";

const root = resolve(import.meta.dirname, "..");

/** Lowest first: a file imports from its own layer and from those before it. The same order as docs/architecture.md. */
const layers = {
  native: ["core", "backend", "objective", "optim", "model", "rollout", "addon", "test"],
  lib: [
    "errors.ts",
    "abort.ts",
    "make-folder.ts",
    "optional-package.ts",
    "warning.ts",
    "network",
    "native",
    "data",
    "retrieval",
    "runs",
    "policy",
    "agent",
    "serving",
    "reward",
    "judge",
    "replay",
    "evaluation",
    "training",
    "dashboard",
    "worlds",
    "config",
    "doctor",
    "index.ts",
    "index.cts",
    "cli",
  ],
};

interface Import {
  from: string;
  to: string;
}

async function sources(folder: string, pattern: RegExp): Promise<string[]> {
  const entries = await readdir(join(root, folder), { recursive: true });
  return entries.filter((path) => pattern.test(path)).map((path) => join(folder, path));
}

async function imports(
  folder: string,
  files: RegExp,
  statement: RegExp,
  target: (file: string, name: string) => string,
) {
  const found: Import[] = [];
  for (const file of await sources(folder, files)) {
    const text = await readFile(join(root, file), "utf8");
    for (const match of text.matchAll(statement))
      found.push({ from: file, to: target(file, match[1] ?? "") });
  }
  return found;
}

const nativeImports = () =>
  imports("native", /\.(h|cc)$/, /^#include "(native\/[^"]+)"/gm, (_file, name) => name);
const libImports = () =>
  imports("lib", /\.c?ts$/, /(?:from|import|require)\s*\(?\s*"(\.[^"]+)"/g, (file, name) =>
    relative(root, resolve(root, dirname(file), name)).replace(/\.js$/, ".ts"),
  );

const layerOf = (path: string) => path.split("/")[1] ?? "";

/** Imports that point from a layer to a later one. */
function upward(order: string[], found: Import[]): string[] {
  return found
    .filter(({ from, to }) => order.indexOf(layerOf(to)) > order.indexOf(layerOf(from)))
    .map(({ from, to }) => `${from} imports ${to}`);
}

/** Files that import each other in a ring; empty if there is none. */
function circle(found: Import[]): string[] {
  const targets = new Map<string, string[]>();
  for (const { from, to } of found) targets.set(from, [...(targets.get(from) ?? []), to]);
  const done = new Set<string>();
  const visit = (file: string, path: string[]): string[] => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return [];
    for (const target of targets.get(file) ?? []) {
      const ring = visit(target, [...path, file]);
      if (ring.length > 0) return ring;
    }
    done.add(file);
    return [];
  };
  for (const file of targets.keys()) {
    const ring = visit(file, []);
    if (ring.length > 0) return ring;
  }
  return [];
}

describe("native", () => {
  test("every folder is a known layer", async () => {
    const folders = await readdir(join(root, "native"));
    expect(folders.filter((folder) => !layers.native.includes(folder))).toEqual([]);
  });

  test("imports point down", async () => {
    const found = await nativeImports();
    expect(found.length).toBeGreaterThan(0);
    expect(upward(layers.native, found)).toEqual([]);
  });

  test("only the addon knows Node", async () => {
    const users = await imports(
      "native",
      /\.(h|cc)$/,
      /^#include <(napi\.h|node_api\.h)>/gm,
      (_file, name) => name,
    );
    expect(users.map(({ from }) => from)).toEqual(["native/addon/node_api.h"]);
  });
});

describe("lib", () => {
  test("every folder is a known layer", async () => {
    const entries = await readdir(join(root, "lib"));
    expect(entries.filter((entry) => !layers.lib.includes(entry))).toEqual([]);
  });

  test("imports point down", async () => {
    const found = await libImports();
    expect(found.length).toBeGreaterThan(0);
    expect(upward(layers.lib, found)).toEqual([]);
  });

  test("no file imports itself by way of others, types included", async () => {
    expect(circle(await libImports())).toEqual([]);
  });
});
