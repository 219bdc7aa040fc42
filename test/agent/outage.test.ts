import { describe, expect, test, vi } from "vitest";
import {
  TINY_PROTOCOL,
  TINY_QUESTIONS,
  TINY_RETRIEVER,
  warmPolicy,
} from "../../examples/own-loop/tiny-world.js";
import { BoundProtocol } from "../../lib/agent/bound-protocol.js";
import { type OutageProgress, rememberAnswered } from "../../lib/agent/outage.js";
import { searchR1 } from "../../lib/agent/protocol.js";
import { type RolloutOptions, type RolloutProgress, rollout } from "../../lib/agent/rollout.js";
import type { Question } from "../../lib/data/question.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import type { Retriever } from "../../lib/retrieval/retriever.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { Interruptible, inAMinute } from "../support/interruptible.js";
import { type Script, ScriptedDecoder } from "../support/scripted-decoder.js";

const tokenizer = byteTokenizer();
const protocol = new BoundProtocol(searchR1({ chat: false, maxTokens: 100_000 }), {
  tokenizer,
  eosTokenIds: [256],
});
const question = (text: string): Question => ({ id: text, question: text, goldAnswers: ["gold"] });
const engine: Retriever = {
  search: async (queries) =>
    queries.map((query): Passage[] => [{ id: query, title: "T", text: `on ${query}` }]),
};
/** Searches as often as its stream says, up to twice. */
const SCRIPT: Script = ({ turn, stream }) =>
  turn < Number(stream % 3n) ? `<search>${stream} ${turn}</search>` : `<answer>${stream}</answer>`;

function run(retriever: Retriever, options: Partial<RolloutOptions> = {}) {
  return rollout({
    decoder: new ScriptedDecoder(tokenizer, SCRIPT),
    retriever,
    protocol,
    questions: ["A?", "B?", "C?"].map(question),
    groupSize: 4,
    searchConcurrency: 1,
    onWarning: () => {},
    ...options,
  });
}

describe("a rollout with an outage in it", () => {
  test("is that without, trajectory for trajectory and bit for bit", async () => {
    const undisturbed = await run(engine);
    for (const searchConcurrency of [1, 3]) {
      // The first call shows that the service works.
      const flaky = new Interruptible(engine, { after: 1, milliseconds: 400 });
      const disturbed = await run(flaky, { searchConcurrency });
      expect(disturbed.groups).toEqual(undisturbed.groups);
      expect(disturbed.searches).toMatchObject({ failures: 0, outages: 1 });
      expect(disturbed.searches.pausedMilliseconds).toBeGreaterThan(0);
    }
    expect(undisturbed.searches).toMatchObject({ failures: 0, outages: 0, pausedMilliseconds: 0 });
  });

  test.each([8192, 256])("a real policy too, with room for %d tokens", async (cacheTokens) => {
    using policy = await warmPolicy();
    const tiny = new BoundProtocol(TINY_PROTOCOL, policy);
    const sample = async (retriever: Retriever) => {
      using decoder = await policy.createDecoder({ cacheTokens });
      return await run(retriever, { decoder, protocol: tiny, questions: TINY_QUESTIONS, seed: 5 });
    };
    const undisturbed = await sample(TINY_RETRIEVER);
    const disturbed = await sample(new Interruptible(TINY_RETRIEVER, { after: 1, failures: 5 }));
    expect(disturbed.groups).toEqual(undisturbed.groups);
    expect(disturbed.searches).toMatchObject({ failures: 0, outages: 1 });
    expect(undisturbed.groups.flat().filter(({ searches }) => searches.length > 0).length).toBeGreaterThan(5);
  });

  test("goes on with those that do not search, and with those that do as soon as it is over", async () => {
    const ended: { id: string; during: boolean }[] = [];
    let outage: OutageProgress | undefined;
    const script: Script = ({ prompt, turn }) => {
      // A? searches at once, B? after a turn without an action, C? never.
      if (prompt.includes("C?")) return turn < 3 ? "hm </search>" : "<answer>A</answer>";
      return turn === (prompt.includes("A?") ? 0 : 1)
        ? "<search>q</search>"
        : turn < 2
          ? "hm </search>"
          : "<answer>A</answer>";
    };
    const decoder = new ScriptedDecoder(tokenizer, script);
    const flaky = new Interruptible(engine, { after: 0, failures: 4 });
    rememberAnswered(flaky, "q");
    await run(flaky, {
      decoder,
      groupSize: 1,
      onProgress: (progress) => {
        outage = progress.outage;
      },
      onTrajectory: ({ id }) => ended.push({ id, during: outage !== undefined }),
    });
    expect(ended.find(({ id }) => id === "0-2-0")).toEqual({ id: "0-2-0", during: true });
    expect(
      ended
        .filter(({ during }) => !during)
        .map(({ id }) => id)
        .sort(),
    ).toEqual(["0-0-0", "0-1-0"]);
  });
});

describe("one hears of it", () => {
  test("in the progress when it begins and when it ends, and once in a warning", async () => {
    const warnings: string[] = [];
    const heard: (RolloutProgress & { at: number })[] = [];
    const flaky = new Interruptible(engine, { after: 1, failures: 4 });
    await run(flaky, {
      maxOutageMs: 90_000,
      onWarning: (warning) => warnings.push(warning),
      onProgress: (progress) => heard.push({ ...progress, at: performance.now() }),
    });
    const during = heard.flatMap(({ outage }) => outage ?? []);
    expect(during[0]).toMatchObject({ tries: 0, reason: "service unavailable" });
    expect(during.at(-1)?.tries).toBe(2);
    expect(new Set(during.map(({ since }) => since)).size).toBe(1);
    const lasts = heard.map(({ outage }) => outage !== undefined);
    const [first, last] = [lasts.indexOf(true), lasts.lastIndexOf(true)];
    expect(first).toBeGreaterThanOrEqual(0);
    expect(heard[last + 1]).not.toHaveProperty("outage");
    expect(warnings).toEqual([
      expect.stringMatching(
        /^The search service does not answer\..* up to 90 s .*maxOutageMs.*service unavailable$/,
      ),
    ]);
  });

  test("on stderr if nobody else listens", async () => {
    const emit = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    try {
      await run(new Interruptible(engine, { after: 1, failures: 4 }), { onWarning: undefined });
      expect(emit.mock.calls).toEqual([
        [expect.stringMatching(/^The search service does not/), "HindsearchWarning"],
      ]);
    } finally {
      emit.mockRestore();
    }
  });

  test("an error that the listener throws ends the rollout and gives every sequence back", async () => {
    const mine = new RangeError("mine");
    const decoder = new ScriptedDecoder(tokenizer, SCRIPT);
    const onWarning = () => {
      throw mine;
    };
    const running = run(new Interruptible(engine, { after: 1, failures: 4 }), { decoder, onWarning });
    await expect(running).rejects.toBe(mine);
    expect(decoder.sequences.size).toBe(0);
  });
});

describe("an outage that is not sat out", () => {
  test("by time ends the trajectories that wait as search failed, and never as an answer to an empty list", async () => {
    const flaky = new Interruptible(engine, { after: 1, failures: Number.POSITIVE_INFINITY });
    const { groups, searches } = await run(flaky, { maxOutageMs: 150, maxFailedShare: 1 });
    const trajectories = groups.flat();
    const lost = trajectories.filter(({ status }) => status === "search failed");
    expect(lost.length).toBeGreaterThan(0);
    expect(searches.failures).toBe(lost.length);
    for (const { reason, answer, searches: asked, spans } of lost) {
      expect(reason).toMatch(/maxOutageMs|service unavailable/);
      expect(answer).toBeNull();
      expect(asked.at(-1)?.passages).toEqual([]);
      expect(spans.at(-1)?.kind).toBe("tag");
    }
    for (const { status, searches: asked } of trajectories) {
      if (status !== "search failed") expect(asked.every(({ passages }) => passages.length === 1)).toBe(true);
    }
  });

  test("rejects if it cost too many", async () => {
    const flaky = new Interruptible(engine, { after: 1, failures: Number.POSITIVE_INFINITY });
    await expect(run(flaky, { maxOutageMs: 150 })).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringMatching(/lost a search.*maxOutageMs.*service unavailable/s),
    });
  });

  test("is what the policy fail asks for", async () => {
    const warnings: string[] = [];
    const flaky = new Interruptible(engine, { after: 1, failures: Number.POSITIVE_INFINITY });
    const running = run(flaky, { outage: "fail", onWarning: (warning) => warnings.push(warning) });
    await expect(running).rejects.toMatchObject({ code: "RETRIEVAL_FAILED" });
    expect(warnings).toEqual([]);
  });

  test("ends at once with an abort", async () => {
    const controller = new AbortController();
    const decoder = new ScriptedDecoder(tokenizer, SCRIPT);
    const lasting = { after: 1, failures: Number.POSITIVE_INFINITY };
    const running = run(new Interruptible(engine, lasting, inAMinute), {
      decoder,
      signal: controller.signal,
      // Behind the event, in the middle of the wait.
      onWarning: () => setTimeout(() => controller.abort(), 50),
    });
    await expect(running).rejects.toMatchObject({ code: "ABORTED" });
    expect(decoder.sequences.size).toBe(0);
  });
});

test("a query of which the service can make nothing holds up nobody but its own trajectory", async () => {
  const script: Script = ({ turn, stream, prompt }) => {
    if (turn > 1) return "<answer>A</answer>";
    return `<search>${prompt.includes("B?") && turn === 1 ? "bad" : `${stream}`}</search>`;
  };
  const search: Retriever["search"] = async (queries, topK) => {
    if (queries.includes("bad")) throw new Error("cannot parse");
    return engine.search(queries, topK);
  };
  const { groups, searches } = await run(
    { search },
    { decoder: new ScriptedDecoder(tokenizer, script), maxFailedShare: 0.5 },
  );
  expect(groups.map((group) => group.map(({ status }) => status))).toEqual([
    Array(4).fill("answered"),
    Array(4).fill("search failed"),
    Array(4).fill("answered"),
  ]);
  expect(searches).toMatchObject({ failures: 4, outages: 0, pausedMilliseconds: 0 });
});
