import type { AbortOptions } from "../abort.js";
import { BoundProtocol } from "../agent/bound-protocol.js";
import { estimateConfiguration, memoryRooms } from "../config/estimate.js";
import type { Held } from "../config/held.js";
import { OpenJudge } from "../config/open-judge.js";
import { openPolicy } from "../config/open-policy.js";
import { openRetriever, questionsOf } from "../config/open-training.js";
import { protocolOf } from "../config/protocol.js";
import type { ReadConfiguration } from "../config/read.js";
import type { Question } from "../data/question.js";
import { HindsearchError } from "../errors.js";
import type { JudgeInput } from "../judge/input.js";
import { formatBytes } from "../policy/memory/report.js";
import type { Policy } from "../policy/policy.js";
import { describePolicy } from "../training/settings.js";
import type { Check, Finding } from "./check.js";
import { checkRunFolder } from "./run-folder.js";

/** Text of several scripts, with what must never become a control token. */
const SAMPLE = "The score of Légende (1985) — 音楽は誰? <|im_end|></s> 12,345";

/** A failed trajectory that a judge can be tried with. */
const ATTEMPT: JudgeInput = {
  question: "Where was the director of the 1975 film Jaws born?",
  goldAnswers: ["Cincinnati"],
  steps: [{ query: "Jaws", passages: [{ id: "1", title: "Jaw", text: "A jaw is a bone of the head." }] }],
  answer: "London",
};

/** What a configuration needs, part by part: does it load, answer, fit? */
export function setupChecks(configuration: ReadConfiguration, held: Held, { signal }: AbortOptions): Check[] {
  const { judge, evaluation } = configuration.values;
  let policy: Policy | undefined;
  let questions: Question[] = [];
  let evaluated: Question[] = [];
  /** What cannot be looked at without the model is no fault of its own. */
  const withModel = (run: (loaded: Policy) => Promise<Finding> | Finding) => () =>
    policy === undefined
      ? { status: "skipped" as const, detail: "the model could not be loaded, see above" }
      : run(policy);
  return [
    {
      name: "memory of the training",
      run: async () => {
        const estimate = await estimateConfiguration(configuration);
        const { peak } = estimate;
        const rooms = await memoryRooms(estimate);
        const there = rooms.map(({ name, available, reason }) =>
          available === null ? `${name}: ${reason}` : `${name}: ${formatBytes(available)}`,
        );
        const need = `${formatBytes(peak.bytes)} at its largest, in the phase ${peak.phase}`;
        const detail = `${need}. ${there.join(". ")}`;
        return rooms.every(({ fits }) => fits)
          ? detail
          : { status: "warning", detail: `${detail}. It does not fit` };
      },
    },
    {
      name: "model",
      run: async () => {
        policy = held.add(await openPolicy(configuration, { signal }));
        return describePolicy(policy);
      },
    },
    { name: "tokenizer", run: withModel(checkTokenizer) },
    { name: "protocol", run: withModel((loaded) => checkProtocol(configuration, loaded)) },
    {
      name: "questions",
      run: async () => {
        questions = await questionsOf(configuration, "data", { signal });
        evaluated = await questionsOf(configuration, "evaluation", { signal });
        return `${questions.length} to train, ${evaluated.length} to evaluate`;
      },
    },
    { name: "retriever", run: () => checkRetriever(configuration, "training", questions[0], held, signal) },
    ...(evaluation?.retriever === undefined
      ? []
      : [
          {
            name: "retriever of evaluations",
            run: () => checkRetriever(configuration, "evaluation", evaluated[0], held, signal),
          },
        ]),
    {
      name: "judge",
      run:
        judge.kind === "none"
          ? () => ({ status: "skipped", detail: "none is configured: plain GRPO" })
          : withModel((loaded) => checkJudge(configuration, loaded, held, signal)),
    },
    { name: "run folder", run: () => checkRunFolder(configuration.resolve(configuration.values.run.folder)) },
  ];
}

function checkTokenizer({ tokenizer }: Policy): string {
  const plain = tokenizer.encodeText(SAMPLE);
  const control = plain.find((id) => tokenizer.isControl(id));
  if (control !== undefined) {
    throw new HindsearchError("INVALID_CHECKPOINT", `Plain text became the control token ${control}.`);
  }
  const back = tokenizer.decode(plain);
  const exact =
    back === SAMPLE ? "reads back what it wrote" : "does not keep every character (it may normalise)";
  return `${tokenizer.size} ids, ${tokenizer.addedTokens.length} added tokens, ${exact}`;
}

function checkProtocol(configuration: ReadConfiguration, policy: Policy): Finding {
  const { maxTokens, chat } = configuration.values.protocol;
  const bound = new BoundProtocol(protocolOf(configuration.values.protocol), policy);
  const prompt = bound.promptTokens("Who wrote the score?").length;
  const detail = `prompt of ${prompt} tokens ${chat ? "by the chat template" : "without a chat template"}, context of ${maxTokens}`;
  const { maxPositions } = policy.config;
  if (maxTokens > maxPositions) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `protocol.maxTokens is ${maxTokens}, but the model has ${maxPositions} positions.`,
    );
  }
  return prompt < maxTokens ? detail : { status: "warning", detail: `${detail}: the prompt alone fills it` };
}

async function checkRetriever(
  configuration: ReadConfiguration,
  use: "training" | "evaluation",
  first: Question | undefined,
  held: Held,
  signal: AbortSignal | undefined,
): Promise<Finding> {
  const opened = held.add(await openRetriever(configuration, { signal }, use));
  const { retriever, evaluation } = configuration.values;
  const { kind } = (use === "evaluation" ? evaluation?.retriever : undefined) ?? retriever;
  const started = performance.now();
  const query = first?.question ?? "capital of France";
  const [passages = []] = await opened.retriever.search([query], 3, { signal });
  const detail = `${kind}: ${passages.length} passages in ${(performance.now() - started).toFixed(0)} ms`;
  return passages.length > 0 ? detail : { status: "warning", detail: `${detail} for the first question` };
}

async function checkJudge(
  configuration: ReadConfiguration,
  policy: Policy,
  held: Held,
  signal: AbortSignal | undefined,
): Promise<Finding> {
  const opened = held.add(await OpenJudge.open(configuration, policy, { signal }));
  const started = performance.now();
  const critique = await opened.judge?.critique(ATTEMPT, { signal });
  const time = `${(performance.now() - started).toFixed(0)} ms`;
  const { kind } = configuration.values.judge;
  if (critique?.status === "ok") return `${kind}: wrote a critique in ${time}`;
  const detail = `${kind}: no critique in ${time}: ${critique?.status}, ${critique?.reason}`;
  // It answered; what it wrote is no critique, as a small model's may be.
  if (critique?.status !== "failed") return { status: "warning", detail };
  throw new HindsearchError("RETRIEVAL_FAILED", detail);
}
