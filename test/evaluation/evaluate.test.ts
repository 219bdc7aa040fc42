import { describe, expect, test } from "vitest";
import { BoundProtocol } from "../../lib/agent/bound-protocol.js";
import { type SearchProtocolOptions, searchR1 } from "../../lib/agent/protocol.js";
import type { Question } from "../../lib/data/question.js";
import { compareReports, type EvaluationRunOptions, evaluate } from "../../lib/evaluation/evaluate.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import type { Retriever } from "../../lib/retrieval/retriever.js";
import { byteTokenizer } from "../support/byte-tokenizer.js";
import { Interruptible, type Interruption } from "../support/interruptible.js";
import { type Script, ScriptedDecoder } from "../support/scripted-decoder.js";

const tokenizer = byteTokenizer();
const question = (id: string, ...goldAnswers: string[]): Question => ({
  id,
  question: `Q${id}?`,
  goldAnswers,
});
const engine: Retriever = {
  search: async (queries) => queries.map((query): Passage[] => [{ id: query, title: "", text: query }]),
};
const QUESTIONS = [
  question("1", "Ada Lovelace", "Lovelace"),
  question("2", "Paris"),
  question("3", "red"),
  question("4", "blue"),
];
const SCRIPT: Script = ({ prompt, turn }) => {
  if (prompt.includes("Q1?")) return "<answer> the LOVELACE </answer>";
  if (prompt.includes("Q2?")) return turn === 0 ? "<search>capital</search>" : "<answer>It is Paris</answer>";
  if (prompt.includes("Q3?")) return "no idea<|end|>";
  return turn === 0 ? "<search>bad</search>" : "<answer>blue</answer>";
};

function run(
  options: Partial<EvaluationRunOptions> = {},
  protocol: SearchProtocolOptions = {},
  script = SCRIPT,
) {
  return evaluate({
    decoder: new ScriptedDecoder(tokenizer, script),
    retriever: {
      search: async (queries) => {
        if (queries.includes("bad")) throw new Error("down");
        return queries.map(() => []);
      },
    },
    protocol: new BoundProtocol(searchR1({ chat: false, maxTokens: 10_000, ...protocol }), {
      tokenizer,
      eosTokenIds: [256],
    }),
    questions: QUESTIONS,
    maxFailedShare: 0.25,
    ...options,
  });
}

describe("evaluate", () => {
  test("every metric under its own name, per question and in the mean; a failed search is in no mean", async () => {
    const report = await run();
    expect(report.results).toEqual([
      {
        id: "1",
        answer: "the LOVELACE",
        status: "answered",
        exactMatch: 1,
        f1: 1,
        containment: 1,
        searches: 0,
      },
      {
        id: "2",
        answer: "It is Paris",
        status: "answered",
        exactMatch: 0,
        f1: 0.5,
        containment: 1,
        searches: 1,
      },
      { id: "3", answer: null, status: "no answer", exactMatch: 0, f1: 0, containment: 0, searches: 0 },
      {
        id: "4",
        answer: null,
        status: "search failed",
        exactMatch: null,
        f1: null,
        containment: null,
        searches: 1,
      },
    ]);
    expect(report).toMatchObject({
      exactMatch: 1 / 3,
      f1: 0.5,
      containment: 2 / 3,
      searches: 0.5,
      statuses: { answered: 2, "no answer": 1, truncated: 0, "search failed": 1 },
    });
  });

  test("an outage is no score", async () => {
    await expect(run({ maxFailedShare: 0.2 })).rejects.toMatchObject({ code: "RETRIEVAL_FAILED" });
    const all = run({ maxFailedShare: 1, questions: [QUESTIONS[3] as Question] });
    await expect(all).rejects.toThrow(/Every search failed/);
    await expect(run({ questions: [] })).rejects.toThrow(/at least one question/);
  });

  test("an outage that passes changes no score, and the report tells of it", async () => {
    const warnings: string[] = [];
    const script: Script = (context) =>
      context.turn < 2
        ? `<search>${context.prompt.length} ${context.turn}</search>`
        : "<answer>Paris</answer>";
    const scored = async (interruption: Interruption) => {
      const whole = await run(
        {
          retriever: new Interruptible(engine, interruption),
          searchConcurrency: 1,
          onWarning: (warning) => warnings.push(warning),
        },
        {},
        script,
      );
      const { searchOutages, searchPausedMilliseconds, milliseconds, ...scores } = whole;
      return { scores, searchOutages, searchPausedMilliseconds };
    };
    const undisturbed = await scored({ after: 1_000, failures: 0 });
    const disturbed = await scored({ after: 1, failures: 4 });
    expect(disturbed.scores).toEqual(undisturbed.scores);
    expect(disturbed.scores).toMatchObject({ searchFailures: 0, searches: 2 });
    expect([undisturbed.searchOutages, disturbed.searchOutages]).toEqual([0, 1]);
    expect(disturbed.searchPausedMilliseconds).toBeGreaterThan(0);
    expect(warnings).toHaveLength(1);
  });

  test("an outage that does not pass is no score either", async () => {
    const script: Script = ({ turn }) => (turn < 2 ? `<search>${turn}</search>` : "<answer>Paris</answer>");
    const lasting = new Interruptible(engine, { after: 1, failures: Number.POSITIVE_INFINITY });
    const options = { retriever: lasting, maxOutageMs: 120, onWarning: () => {} };
    await expect(run(options, {}, script)).rejects.toMatchObject({
      code: "RETRIEVAL_FAILED",
      message: expect.stringContaining("maxOutageMs"),
    });
    const mixed: Script = (context) =>
      context.prompt.includes("Q2?") ? "<answer>Paris</answer>" : script(context);
    const report = await run(
      {
        ...options,
        maxFailedShare: 1,
        retriever: new Interruptible(engine, { after: 1, failures: Number.POSITIVE_INFINITY }),
      },
      {},
      mixed,
    );
    expect(report).toMatchObject({ exactMatch: 1, searchFailures: 3, searchOutages: 1 });
    expect(report.statuses).toMatchObject({ answered: 1, "search failed": 3 });
  });

  test("the same twice gives the same", async () => {
    const [a, b] = [await run(), await run()];
    expect({ ...a, milliseconds: 0 }).toEqual({ ...b, milliseconds: 0 });
  });

  test("what the score depends on travels with it", async () => {
    const { settings } = await run({ corpus: "wiki-18, BM25" });
    expect(settings).toMatchObject({
      protocol: "search-r1",
      questions: 4,
      maxSearches: 4,
      passagesPerSearch: 3,
      corpus: "wiki-18, BM25",
      sampling: { temperature: 0, topK: 0, topP: 1, minP: 0 },
    });
  });
});

describe("compareReports", () => {
  test("pairs the questions that both could search for", async () => {
    const better: Script = (context) =>
      context.prompt.includes("Q3?") ? "<answer>red</answer>" : SCRIPT(context);
    const [a, b] = [await run({}, {}, better), await run()];
    expect(compareReports(a, b)).toMatchObject({ n: 3, mean: 1 / 3 });
  });

  test.each([
    ["passagesPerSearch", {}, { passagesPerSearch: 5 }],
    ["maxSearches", {}, { maxSearches: 2 }],
    ["promptHash", {}, { notice: "x" }],
    ["questionsHash", { questions: QUESTIONS.slice(0, 3) }, {}],
    ["sampling", { sampling: { temperature: 1 } }, {}],
    ["corpus", { corpus: "other" }, {}],
  ] as [string, Partial<EvaluationRunOptions>, SearchProtocolOptions][])(
    "refuses reports that differ in %s",
    async (name, options, protocol) => {
      const [a, b] = [await run(), await run(options, protocol)];
      expect(() => compareReports(a, b)).toThrow(new RegExp(`different settings \\(.*${name}`));
    },
  );
});
