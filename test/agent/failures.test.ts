import { expect, test } from "vitest";
import { rollout } from "../../lib/agent/rollout.js";
import { type Script, ScriptedDecoder } from "../support/scripted-decoder.js";
import { bound, engine, question, run, tokenizer } from "../support/scripted-rollout.js";

const flaky = async (queries: readonly string[]) => {
  if (queries.some((query) => query.includes("bad"))) throw new Error("cannot");
  return engine(queries);
};
const script: Script = ({ turn, prompt }) =>
  turn === 0 ? `<search>${prompt.includes("B?") ? "bad" : "good"}</search>` : "<answer>A</answer>";

test("one failed search does not stop the others", async () => {
  const questions = ["A?", "B?", "C?", "D?"].map(question);
  const { groups, searches } = await run(script, {
    questions,
    retriever: { search: flaky },
    maxFailedShare: 0.25,
  });
  expect(groups.map(([trajectory]) => trajectory?.status)).toEqual([
    "answered",
    "search failed",
    "answered",
    "answered",
  ]);
  expect(searches).toMatchObject({ searches: 4, failures: 1 });
});

test("an outage stops the rollout, which names it", async () => {
  const questions = ["A?", "B?", "C?", "D?"].map(question);
  const decoder = new ScriptedDecoder(tokenizer, script);
  const failing = rollout({
    decoder,
    retriever: { search: flaky },
    protocol: bound(),
    questions,
    maxFailedShare: 0.2,
  });
  await expect(failing).rejects.toMatchObject({
    code: "RETRIEVAL_FAILED",
    message: expect.stringMatching(/1 of 4 trajectories lost a search.*cannot/),
  });
  expect(decoder.sequences.size).toBe(0);
});

test("a decoder that fails rejects with its reason and releases everything", async () => {
  const decoder = new ScriptedDecoder(tokenizer, script);
  decoder.broken = "logit 3 at position 17 is NaN";
  const failing = rollout({
    decoder,
    retriever: { search: engine },
    protocol: bound(),
    questions: [question("A?")],
    groupSize: 3,
  });
  await expect(failing).rejects.toMatchObject({
    code: "NON_FINITE",
    message: expect.stringMatching(/position 17/),
  });
  expect(decoder.sequences.size).toBe(0);
});

test("a prompt that the decoder refuses stops those that were started", async () => {
  const decoder = new ScriptedDecoder(tokenizer, script);
  const submit = decoder.submit;
  let submissions = 0;
  decoder.submit = (...submission) => {
    if (++submissions === 3) throw Object.assign(new Error("too long"), { code: "CONTEXT_FULL" });
    return submit(...submission);
  };
  const questions = ["A?", "B?", "C?", "D?"].map(question);
  const failing = rollout({
    decoder,
    retriever: { search: engine },
    protocol: bound(),
    questions,
    groupSize: 2,
  });
  await expect(failing).rejects.toMatchObject({ code: "CONTEXT_FULL" });
  expect(decoder.sequences.size).toBe(0);
  const calls = decoder.batches.length;
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(decoder.batches.length, "still waiting for the decoder").toBe(calls);
});

test("an abort during a search and during decoding", async () => {
  for (const hang of ["search", "decode"]) {
    const controller = new AbortController();
    // Behind everything that the call itself still does in this turn of the event loop.
    const abort = () => setImmediate(() => controller.abort());
    const decoder = new ScriptedDecoder(tokenizer, script);
    if (hang === "decode") {
      decoder.delay = () => {
        abort();
        return 20;
      };
    }
    const hanging = () => {
      abort();
      return new Promise<never>(() => {});
    };
    const search = hang === "search" ? hanging : engine;
    const aborted = rollout({
      decoder,
      retriever: { search },
      protocol: bound(),
      questions: ["A?", "C?"].map(question),
      groupSize: 2,
      signal: controller.signal,
    });
    await expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
    expect(decoder.sequences.size).toBe(0);
  }
});

test("options out of range are refused", async () => {
  for (const wrong of [{ seed: -1 }, { seed: 1.5 }, { groupSize: 0 }, { maxFailedShare: Number.NaN }]) {
    await expect(run(script, wrong)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining(Object.keys(wrong)[0] as string),
    });
  }
});

test("a signal that has fired starts nothing", async () => {
  const decoder = new ScriptedDecoder(tokenizer, script);
  const options = {
    decoder,
    retriever: { search: engine },
    protocol: bound(),
    questions: [question("A?")],
  };
  await expect(rollout({ ...options, signal: AbortSignal.abort() })).rejects.toMatchObject({
    code: "ABORTED",
  });
  expect(decoder.batches).toEqual([]);
});
