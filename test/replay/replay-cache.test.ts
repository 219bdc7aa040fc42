import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ReplayCache, type ReplayMode } from "../../lib/replay/replay-cache.js";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-replay-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const open = (mode: ReplayMode, secrets: string[] = []) => new ReplayCache({ folder, mode, secrets });
let calls = 0;
const counting = async () => [`answer ${++calls}`];
const ask = async (cache: ReplayCache, key: unknown[] = ["a"]) => {
  const [found] = await cache.answers("test", [key], counting);
  return found?.answer;
};
beforeEach(() => {
  calls = 0;
});
const files = async () =>
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

describe("modes", () => {
  test("off: every call goes through, nothing is written", async () => {
    const cache = open("off");
    expect([await ask(cache), await ask(cache)]).toEqual(["answer 1", "answer 2"]);
    expect(await files()).toEqual([]);
  });

  test("record: once per run, and a later run records anew", async () => {
    const cache = open("record");
    expect([await ask(cache), await ask(cache)]).toEqual(["answer 1", "answer 1"]);
    expect(cache.stats()).toEqual({ hits: 1, misses: 1, written: 1 });
    expect(await ask(open("record"))).toBe("answer 2");
    expect(await ask(open("replay"))).toBe("answer 2");
  });

  test("replay: records alone", async () => {
    await ask(open("record"));
    const cache = open("replay");
    expect(await ask(cache)).toBe("answer 1");
    expect(await ask(cache, ["b"])).toBeUndefined();
    expect(calls).toBe(1);
    expect(cache.stats()).toEqual({ hits: 1, misses: 1, written: 0 });
  });

  test("replay-else-record: a record if there is one", async () => {
    await ask(open("record"));
    const cache = open("replay-else-record");
    expect([await ask(cache), await ask(cache, ["b"])]).toEqual(["answer 1", "answer 2"]);
    expect(await ask(open("replay"), ["b"])).toBe("answer 2");
  });

  test("an answer that is not final is replayed, but had again where that can be", async () => {
    const isFinal = (answer: string) => answer !== "answer 1";
    const final = async (cache: ReplayCache) =>
      (await cache.answers("test", [["a"]], counting, isFinal))[0]?.answer;
    const first = open("replay-else-record");
    expect([await final(first), await final(first)]).toEqual(["answer 1", "answer 1"]);
    expect(await final(open("replay"))).toBe("answer 1");
    expect(await final(open("replay-else-record"))).toBe("answer 2");
    expect(await final(open("replay"))).toBe("answer 2");
  });

  test("another one is refused", () => {
    expect(() => open("reply" as never)).toThrow(/mode is reply/);
  });
});

describe("calls", () => {
  test("that are equal and open at the same time are one", async () => {
    const cache = open("record");
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(cache)));
    expect(new Set(answers)).toEqual(new Set(["answer 1"]));
  });

  test("equal ones in one batch are made once, missing ones together", async () => {
    await ask(open("record"), ["b"]);
    const made: (readonly number[])[] = [];
    const found = await open("replay-else-record").answers(
      "test",
      [["a"], ["b"], ["c"], ["a"]],
      async (indices) => {
        made.push(indices);
        return indices.map((i) => `made ${i}`);
      },
    );
    expect(made).toEqual([[0, 2]]);
    expect(found.map((one) => one?.answer)).toEqual(["made 0", "answer 1", "made 2", "made 0"]);
  });

  test("one that fails is not recorded and leaves the next to try", async () => {
    const cache = open("record");
    const failing = cache.answers("test", [["a"]], () => Promise.reject(new Error("outage")));
    const other = ask(cache);
    await expect(failing).rejects.toThrow("outage");
    expect(await other).toBe("answer 1");
  });

  test("differ by kind and by any part of the key, not by the order of its fields", async () => {
    const cache = open("record");
    const keys = [["a"], ["a", 1], ["a", "1"], [{ x: 1, y: [2] }], [{ x: 1, y: [3] }], [["a"]]];
    const answers = await Promise.all(keys.map((key) => ask(cache, key)));
    expect(new Set(answers).size).toBe(keys.length);
    expect(await ask(open("replay"), [{ y: [2], x: 1 }])).toBe(answers[3]);
    expect(await open("replay").answers("other", [["a"]], counting)).toEqual([undefined]);
  });

  test("have the same answer when made and when replayed, to the bit", async () => {
    const value = {
      score: 0.1 + 0.2,
      tiny: 5e-324,
      text: "é\u0000\ud800 \u2028",
      nothing: undefined,
      list: [1, null],
    };
    const [made] = await open("record").answers("test", [["v"]], async () => [value]);
    const [replayed] = await open("replay").answers("test", [["v"]], async () => [value]);
    expect(replayed?.answer).toEqual(made?.answer);
    expect(made?.answer).toMatchObject({ score: 0.30000000000000004, tiny: 5e-324 });
    expect(Object.keys(made?.answer as object)).not.toContain("nothing");
  });
});

describe("files", () => {
  test("that were cut off count as missing, and are replaced", async () => {
    await ask(open("record"));
    const [path = ""] = await files();
    const whole = await readFile(path, "utf8");
    for (const length of [0, 1, whole.length - 2]) {
      await writeFile(path, whole);
      await truncate(path, length);
      expect(await ask(open("replay"))).toBeUndefined();
      const again = await ask(open("replay-else-record"));
      expect(again).toMatch(/^answer/);
      expect(await ask(open("replay"))).toBe(again);
    }
    expect(await files()).toHaveLength(1);
  });

  test("hold no secret", async () => {
    process.env.HINDSEARCH_JUDGE_API_KEY = "canary-of-the-environment";
    process.env.HINDSEARCH_MCP_TOKEN = "canary-of-a-token";
    process.env.HINDSEARCH_OPENSEARCH_PASSWORD = "canary-of-a-password";
    try {
      const cache = open("record", ["canary-of-the-option"]);
      const text = "says canary-of-the-environment and canary-of-the-option";
      const others = await cache.answers("test", [["b"]], async () => [
        "canary-of-a-token, canary-of-a-password",
      ]);
      expect(others[0]?.answer).toBe("***, ***");
      const key = ["canary-of-the-environment"];
      const [found] = await cache.answers("test", [key], async () => [{ deep: [text] }]);
      expect(found?.answer).toEqual({ deep: ["says *** and ***"] });
      for (const path of await files()) {
        expect(path).not.toContain("canary");
        expect(await readFile(path, "utf8")).not.toContain("canary");
      }
    } finally {
      delete process.env.HINDSEARCH_JUDGE_API_KEY;
      delete process.env.HINDSEARCH_MCP_TOKEN;
      delete process.env.HINDSEARCH_OPENSEARCH_PASSWORD;
    }
  });

  test("several processes write at once: one answer for all, and no half record", async () => {
    const count = 60;
    const child = resolve(import.meta.dirname, "replay-child.ts");
    const run = async (who: string) => {
      const { stdout } = await promisify(execFile)(process.execPath, [
        "--import",
        "tsx",
        child,
        folder,
        who,
        `${count}`,
      ]);
      return JSON.parse(stdout) as string[];
    };
    const [first, ...others] = await Promise.all(["anna", "bert", "cleo"].map(run));
    for (const answers of others) expect(answers).toEqual(first);
    expect(await files()).toHaveLength(count);
  }, 60_000);
});

test("a folder that cannot be written is an error that names it", async () => {
  await writeFile(join(folder, "test"), "a file");
  await expect(ask(open("record"))).rejects.toMatchObject({
    code: "IO",
    message: expect.stringContaining(folder),
  });
});
