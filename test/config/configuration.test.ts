import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import {
  TINY_JUDGE,
  TINY_QUESTIONS,
  TINY_RETRIEVER,
  tinyPolicy,
} from "../../examples/own-loop/tiny-world.js";
import { searchR1 } from "../../lib/agent/protocol.js";
import { configurationJsonSchema, configurationSections } from "../../lib/config/documentation.js";
import { configurationMarkdown } from "../../lib/config/markdown.js";
import { protocolOf } from "../../lib/config/protocol.js";
import { checkConfiguration, type ReadOptions } from "../../lib/config/read.js";
import { ConfigurationSource } from "../../lib/config/source.js";
import { trainerOptions } from "../../lib/config/trainer-options.js";
import { protocolSettings } from "../../lib/evaluation/evaluate.js";
import { nativeTerms } from "../../lib/policy/objective.js";
import { resolveSettings } from "../../lib/training/settings.js";

const root = resolve(import.meta.dirname, "../..");
const MINIMAL = `model: { folder: model }
data: { questions: train.jsonl }
retriever: { kind: memory, corpus: corpus.jsonl }
training: { steps: 300 }
`;

const read = (text: string, options: ReadOptions = {}) =>
  checkConfiguration(ConfigurationSource.parse(text, "/project/train.yaml"), { environment: {}, ...options });

/** The message for a configuration that is refused. */
function refusal(text: string, options: ReadOptions = {}): string {
  try {
    read(text, options);
  } catch (error) {
    expect(error).toMatchObject({ code: expect.stringMatching(/^INVALID_(CONFIGURATION|ARGUMENT)$/) });
    return (error as Error).message;
  }
  throw new Error("it was not refused");
}

test("the defaults are the library's own", async () => {
  using policy = await tinyPolicy();
  const configuration = read(`${MINIMAL}judge: { kind: chat, baseURL: "http://127.0.0.1:1/v1", model: x }
protocol: { maxTokens: 64, maxTurnTokens: 6, maxObservationTokens: 12 }
evaluation: { questions: dev.jsonl }
`);
  const participants = {
    policy,
    retriever: TINY_RETRIEVER,
    judge: TINY_JUDGE,
    questions: TINY_QUESTIONS.slice(1),
    evaluation: { questions: TINY_QUESTIONS.slice(0, 1) },
  };
  const protocol = searchR1({ maxTokens: 64, maxTurnTokens: 6, maxObservationTokens: 12 });
  const ours = resolveSettings(trainerOptions(configuration, participants));
  const theirs = resolveSettings({ ...participants, protocol, steps: 300 });
  // Where the library leaves a term's defaults to the engine, what the engine gets must be the same.
  const withTerms = ({ policyTerm, kl, distillation, optimizer, ...rest }: typeof ours) => ({
    ...rest,
    ...nativeTerms({ policy: policyTerm, kl: kl ?? {}, distill: distillation?.term ?? {} }),
    distillation: { ...distillation, term: null },
    optimizer: {
      beta1: 0.9,
      beta2: 0.999,
      epsilon: 1e-8,
      weightDecay: 0.01,
      maxGradientNorm: 1,
      ...optimizer,
    },
  });
  expect(withTerms(ours)).toEqual(withTerms(theirs));
});

test("the distillation term that is written out has the defaults of the one that is not", async () => {
  using policy = await tinyPolicy();
  const text = `${MINIMAL}judge: { kind: chat, baseURL: "http://127.0.0.1:1/v1", model: x }\n`;
  const settings = (more: string) =>
    resolveSettings(
      trainerOptions(read(text.replace("{ steps: 300 }", `{ steps: 300${more} }`)), {
        policy,
        retriever: TINY_RETRIEVER,
        judge: TINY_JUDGE,
        questions: TINY_QUESTIONS,
      }),
    ).distillation;
  const [written, absent] = [settings(", distillation: {}"), settings("")];
  expect({ ...written, term: nativeTerms({ distill: written?.term ?? {} }) }).toEqual({
    ...absent,
    term: nativeTerms({ distill: absent?.term ?? {} }),
  });
});

test("the protocol of an empty section is Search-R1's", () => {
  expect(protocolSettings(protocolOf(read(MINIMAL).values.protocol))).toEqual(protocolSettings(searchR1()));
});

test("a prompt of one's own keeps question and hint foreign", () => {
  const { protocol } = read(
    `${MINIMAL}protocol: { prompt: "Q: {question} A:", hintLabel: "Hint: " }\n`,
  ).values;
  expect(protocolOf(protocol).prompt(" who? ", "<x>")).toEqual([
    { text: "Hint: ", trusted: true },
    { text: "<x>", trusted: false },
    { text: "\n\n", trusted: true },
    { text: "Q: ", trusted: true },
    { text: "who?", trusted: false },
    { text: " A:", trusted: true },
  ]);
});

describe("mistakes", () => {
  const cases: [what: string, text: string, message: RegExp][] = [
    [
      "a misspelt key",
      `${MINIMAL}trainin: {}\n`,
      /train\.yaml, line 5, column 1: trainin is no key .* Did you mean training\?/,
    ],
    [
      "a misspelt key inside",
      MINIMAL.replace("steps: 300", "steps: 300, grupSize: 5"),
      /line 4, column 25: training\.grupSize .* Did you mean groupSize\?/,
    ],
    [
      "a wrong type",
      MINIMAL.replace("300", "many"),
      /line 4, column 20: training\.steps is "many", expected a whole number of at least 1\./,
    ],
    [
      "a number out of range",
      MINIMAL.replace("300", "0"),
      /training\.steps is 0, expected a whole number of at least 1\./,
    ],
    ["a fraction", MINIMAL.replace("300", "1.5"), /training\.steps is 1\.5, expected a whole number/],
    [
      "a missing key",
      MINIMAL.replace("steps: 300", "groupSize: 5"),
      /line 4, column 11: training\.steps is missing, expected a whole number/,
    ],
    ["a missing section", MINIMAL.replace(/data.*\n/, ""), /data is missing, expected a mapping/],
    [
      "an unknown kind",
      MINIMAL.replace("memory", "memroy"),
      /line 3, column 20: retriever\.kind is "memroy", expected one of memory, index, .* Did you mean memory\?/,
    ],
    [
      "no kind",
      MINIMAL.replace("kind: memory, ", ""),
      /retriever\.kind is missing, expected one of memory, index/,
    ],
    [
      "a misspelt choice",
      MINIMAL.replace("steps: 300", "steps: 300, kl: { estimator: k4 }"),
      /training\.kl\.estimator is "k4", expected one of k1, k2, k3\. Did you mean k1\?/,
    ],
    [
      "a term that is no mapping",
      MINIMAL.replace("steps: 300", "steps: 300, kl: 3"),
      /training\.kl is 3, expected false or a mapping/,
    ],
    [
      "a list where text belongs",
      MINIMAL.replace("train.jsonl", "[a]"),
      /data\.questions is a list, expected text/,
    ],
    [
      "an address of another kind",
      `${MINIMAL}judge: { kind: chat, model: x, baseURL: "file:///etc/passwd" }\n`,
      /line 5, column \d+: judge\.baseURL is "file:\/\/\/etc\/passwd"/,
    ],
    [
      "both kinds of model",
      MINIMAL.replace("folder: model", "folder: model, initialize: { config: a, tokenizer: b }"),
      /line 1, column 8: model: give either folder or initialize/,
    ],
    [
      "distillation without a judge",
      MINIMAL.replace("steps: 300", "steps: 300, distillation: { weight: 0.1 }"),
      /line 4, column \d+: training\.distillation: needs a judge/,
    ],
    ["what is no YAML", "model: [\n", /line 2, column 1: .+/],
    ["a key twice", `${MINIMAL}model: {}\n`, /line 5, column 1: the key model is there already/],
    ["two documents", `${MINIMAL}---\n${MINIMAL}`, /line 5, column 1: a second YAML document begins here/],
    ["no number", MINIMAL.replace("300", ".nan"), /training\.steps is NaN, expected a whole number/],
    ["an infinite number", MINIMAL.replace("300", "1e400"), /training\.steps is Infinity, expected/],
    ["a list at the top", "- a\n", /must hold a mapping/],
    [
      "a place in an ensemble",
      `${MINIMAL}judge: { kind: ensemble, judges: [{ kind: policy }, { kind: chat, modle: x, baseURL: "http://x/v1" }] }\n`,
      /judge\.judges\[1\]\.modle is no key .* Did you mean model\?/,
    ],
  ];
  test.each(cases)("%s", (_what, text, message) => {
    expect(refusal(text)).toMatch(message);
  });

  test("all of them are told, each with its line", () => {
    const message = refusal("modle: {}\ntraining:\n  steps: x\n  seed: -1\n");
    expect(message).toContain("/project/train.yaml has 6 mistakes:");
    expect(message).toMatch(/line 3, column 10: training\.steps/);
    expect(message).toMatch(
      /line 4, column 9: training\.seed is -1, expected a whole number of at least 0\./,
    );
  });

  test("an alias bomb is refused", () => {
    const levels = Array.from(
      { length: 12 },
      (_, i) => `a${i + 1}: &a${i + 1} [${Array(9).fill(`*a${i}`).join(", ")}]`,
    );
    expect(refusal(`a0: &a0 [x]\n${levels.join("\n")}\n`)).toMatch(/alias/);
  });

  test("a key named like a part of JavaScript's objects is an unknown key", () => {
    expect(refusal(`${MINIMAL}__proto__: { a: 1 }\nconstructor: 1\n`)).toMatch(/constructor is no key/);
  });
});

test("a section whose keys are all commented out is an empty one", () => {
  expect(read(`${MINIMAL}protocol:\n  # maxSearches: 4\n`).values).toEqual(read(MINIMAL).values);
  expect(refusal(MINIMAL.replace("{ steps: 300 }", ""))).toMatch(/training\.steps is missing/);
});

describe("--set", () => {
  test("values are YAML, and win over the file", () => {
    const { training } = read(MINIMAL, {
      set: ["training.steps=7", "training.kl=false", "training.sampling.temperature=0.5"],
    }).values;
    expect([training.steps, training.kl, training.sampling.temperature]).toEqual([7, false, 0.5]);
  });

  test("a mistake names the setting in place of a line", () => {
    expect(refusal(MINIMAL, { set: ["training.steps=many"] })).toMatch(
      /--set training\.steps: training\.steps is "many"/,
    );
    expect(refusal(MINIMAL, { set: ["training.stepz=3"] })).toMatch(
      /--set training\.stepz: .* Did you mean steps\?/,
    );
  });

  test.each([
    "training",
    "=3",
    "a..b=1",
    "__proto__.x=1",
    "training.steps.x=1",
    "training.steps=[",
    "a.constructor.b=1",
  ])("%s is refused", (assignment) => {
    expect(refusal(MINIMAL, { set: [assignment] })).toContain(assignment.split("=")[0]);
  });
});

describe("variables", () => {
  const judge = (key: string) =>
    `${MINIMAL}judge: { kind: chat, baseURL: "http://x/v1", model: x, apiKey: "${key}" }\n`;
  // biome-ignore lint/suspicious/noTemplateCurlyInString: this is how a configuration refers to a variable
  const [reference, escaped, inside] = ["${KEY}", "$${KEY}", "a-${KEY}-b"];
  const environment = { KEY: "canary-4711" };

  test("stand in texts, also within longer ones, and can be escaped", () => {
    const key = (text: string) =>
      (read(judge(text), { environment }).values.judge as { apiKey?: string }).apiKey;
    expect([reference, inside, escaped].map(key)).toEqual(["canary-4711", "a-canary-4711-b", reference]);
  });

  test("are references again in the record, which gives the same configuration", () => {
    const configuration = read(judge(reference), { environment });
    const record = configuration.record();
    expect(record).toContain(`apiKey: ${reference}`);
    expect(record).not.toContain("canary");
    expect(configuration.secrets).toEqual(["canary-4711"]);
    const again = read(record, { environment });
    expect({ ...again.values, base: undefined }).toEqual({ ...configuration.values, base: undefined });
    expect(again.base).toBe("/project");
  });

  test("secrets that are written out are left out of the record", () => {
    const text = `${judge("canary-plain-1")}`.replace(
      "model: x",
      'model: x, headers: { X-Anything: "canary-plain-2" }',
    );
    const storage = text.replace(
      "kind: memory, corpus: corpus.jsonl",
      "kind: index, folder: i, storageOptions: { secret_access_key: canary-plain-3 }",
    );
    const record = read(storage).record();
    expect(record).toContain("baseURL");
    expect(record).not.toContain("canary");
  });

  test("that are not set are refused when their section is used, and not before", () => {
    const configuration = read(judge(reference));
    expect(() => configuration.requireVariables("retriever")).not.toThrow();
    expect(() => configuration.requireVariables("judge")).toThrow(
      /line 5, column \d+: judge\.apiKey refers to the environment variable KEY, which is not set/,
    );
  });

  test("that are not set where the text must have a form are named", () => {
    const text = judge("x").replace("http://x/v1", reference);
    expect(refusal(text)).toMatch(/judge\.baseURL is .*but the environment variable KEY is not set/);
  });

  test("are not told in a mistake", () => {
    const text = judge(reference).replace("http://x/v1", reference);
    const message = refusal(text, { environment });
    expect(message).toContain("judge.baseURL");
    expect(message).not.toContain("canary");
  });
});

describe("documentation", () => {
  test("docs/configuration.md is current; npm run docs:configuration writes it", async () => {
    expect(await readFile(join(root, "docs/configuration.md"), "utf8")).toBe(configurationMarkdown());
  });

  test("config.schema.json is current", async () => {
    expect(JSON.parse(await readFile(join(root, "config.schema.json"), "utf8"))).toEqual(
      configurationJsonSchema(),
    );
  });

  test("every key has a text, and is listed once", () => {
    const sections = configurationSections();
    for (const { title, rows } of sections) {
      expect(new Set(rows.map(({ key }) => key)).size, title).toBe(rows.length);
      for (const { key, text } of rows) expect(text || "none", key).not.toBe("none");
    }
    expect(sections.flatMap(({ rows }) => rows).length).toBeGreaterThan(250);
  });
});
