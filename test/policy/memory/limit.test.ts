import { describe, expect, test } from "vitest";
import { engine } from "../../../lib/policy/engine.js";
import {
  availableMemory,
  availableOf,
  cachedFilesOf,
  statisticsFiles,
} from "../../../lib/policy/memory/available.js";
import { Policy } from "../../../lib/policy/policy.js";
import { randomTokens, smallConfigs, smallPolicy } from "../../support/small-policy.js";

const MIB = 2 ** 20;
const below = (bytes: number) => process.memoryUsage.rss() + bytes;

/** That `work` is refused without a byte allocated; its message. */
async function refused(work: () => Promise<unknown>): Promise<string> {
  const before = { engine: engine.memory.peakBytes, rss: process.memoryUsage.rss() };
  const error = await work().then(
    () => undefined,
    (thrown) => thrown,
  );
  expect(error).toMatchObject({ code: "OUT_OF_MEMORY" });
  expect(engine.memory.peakBytes).toBe(before.engine);
  expect(process.memoryUsage.rss() - before.rss).toBeLessThan(16 * MIB);
  return error.message;
}

describe("what cannot fit is refused before it is allocated", () => {
  // 256 MiB of embedding and as much of head.
  const large = { ...smallConfigs.llama, vocab_size: 2 ** 20, hidden_size: 64, head_dim: 16 };

  test("a model", async () => {
    const message = await refused(() =>
      Policy.initialize({ config: large, compute: "f32", memoryLimit: below(400 * MIB) }),
    );
    expect(message).toMatch(
      /Loading a model of 134\.\d M parameters needs 77\d MiB; \d+ MiB are left of the/,
    );
    expect(message).toMatch(/weights 51\d MiB, packed weights 256 MiB/);
    expect(message).toMatch(/smaller model.*compute: "bf16"/);
  });

  test("a decoder, naming what makes it large; the policy works on", async () => {
    using policy = await smallPolicy();
    const tokens = randomTokens(20, 1);
    const before = await policy.score([{ tokens }]);
    const cacheTokens = 2 ** 20;
    const message = await refused(() => policy.createDecoder({ cacheTokens, memoryLimit: below(100 * MIB) }));
    expect(message).toMatch(
      /A decoder needs 38\d MiB; \d+ MiB are left.*cache 38\d MiB.*lower cacheTokens \(1048576\)/,
    );
    const batch = { maxBatch: 2 ** 16, cacheTokens: 1024, prefillTokens: 2 ** 20 };
    expect(await refused(() => policy.createDecoder({ ...batch, memoryLimit: below(MIB) }))).toMatch(
      /lower maxBatch \(65536\) or prefillTokens/,
    );
    await expect(
      refused(() => policy.generate([tokens], { cacheTokens, memoryLimit: below(MIB) })),
    ).resolves.toMatch(/A decoder/);
    expect(await policy.score([{ tokens }])).toEqual(before);
  });

  test("by what the machine has, unless the check is off", async () => {
    using policy = await smallPolicy();
    const message = await refused(() => policy.createDecoder({ cacheTokens: 2 ** 31 - 1 }));
    expect(message).toMatch(/A decoder needs \d{3}\.\d\d GiB; \d+\.\d\d GiB are available/);
    using decoder = await policy.createDecoder({ cacheTokens: 1024, memoryLimit: null });
    expect(decoder.bytes).toBeGreaterThan(0);
  });

  test("a limit that is none", async () => {
    using policy = await smallPolicy();
    for (const memoryLimit of [0, -1, Number.NaN]) {
      await expect(policy.createDecoder({ memoryLimit })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
  });
});

describe("available memory", () => {
  test("the smaller of what the machine and the control group leave; cached files make way", () => {
    const figures = { system: 100, limit: 50, belowLimit: 10, cachedFiles: 20 };
    expect(availableOf(figures)).toBe(30);
    expect(availableOf({ ...figures, system: 25 })).toBe(25);
    expect(availableOf({ ...figures, limit: null })).toBe(100);
  });

  test("the statistics of a control group of either version", () => {
    expect(statisticsFiles("0::/app.slice/run\n")).toEqual([
      "/sys/fs/cgroup/app.slice/run/memory.stat",
      "/sys/fs/cgroup/memory.stat",
    ]);
    expect(statisticsFiles("5:cpu,cpuacct:/a\n4:memory:/docker/x\n0::/\n")).toEqual([
      "/sys/fs/cgroup/memory/docker/x/memory.stat",
      "/sys/fs/cgroup/memory/memory.stat",
    ]);
    expect(statisticsFiles("")).toEqual([]);
    expect(cachedFilesOf("anon 7\ninactive_file 5\nactive_file 6\n")).toBe(11);
    expect(
      cachedFilesOf("inactive_file 5\nactive_file 6\ntotal_inactive_file 50\ntotal_active_file 60\n"),
    ).toBe(110);
    expect(cachedFilesOf("anon 7\n")).toBe(0);
  });

  test("here there is some, and less than the machine has", async () => {
    const { totalmem } = await import("node:os");
    expect(availableMemory()).toBeGreaterThan(64 * MIB);
    expect(availableMemory()).toBeLessThan(totalmem());
  });
});
