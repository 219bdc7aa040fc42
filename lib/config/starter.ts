import { configurationSections, type KeyRow } from "./documentation.js";

/** A key of the starter with its value as YAML. With `# ` before it, or without one and then with its default, it is a comment. */
type StarterKey = readonly [key: string, value: string | undefined];

// What an editor replaces; a variable, as a key belongs there.
const KEY = "$" + "{HINDSEARCH_JUDGE_API_KEY}";

const STARTER: readonly StarterKey[] = [
  ["model.folder", "Qwen2.5-0.5B-Instruct"],
  ["model.compute", undefined],
  ["data.questions", "train.jsonl"],
  ["data.limit", undefined],
  ["retriever.kind", "memory"],
  ["retriever.corpus", "corpus.jsonl"],
  ["judge.kind", "chat"],
  ["judge.baseURL", "http://127.0.0.1:8000/v1"],
  ["judge.model", "Qwen2.5-7B-Instruct"],
  ["judge.apiKey", `# ${KEY}`],
  ["protocol.maxSearches", undefined],
  ["protocol.passagesPerSearch", undefined],
  ["protocol.maxTokens", undefined],
  ["training.steps", "300"],
  ["training.questionsPerStep", "64"],
  ["training.groupSize", undefined],
  ["training.seed", undefined],
  ["training.microBatchTokens", undefined],
  ["evaluation.questions", "dev.jsonl"],
  ["evaluation.every", "25"],
  ["run.folder", "runs/first"],
  ["run.checkpointEvery", undefined],
];

const HEADER = `# yaml-language-server: $schema=node_modules/hindsearch/config.schema.json
#
# A training of hindsearch. Keys that are commented out show their defaults; \`npx hindsearch config\` lists all keys.
# Questions are JSON Lines: {"question": "...", "golden_answers": ["..."]}
# Passages are JSON Lines:  {"id": "1", "title": "...", "text": "..."}, or a folder of .txt and .md files
#
#   npx hindsearch doctor hindsearch.yaml     does everything load, answer and fit?
#   npx hindsearch estimate hindsearch.yaml   memory, and with --probe time
#   npx hindsearch train hindsearch.yaml      Ctrl-C saves, --resume goes on
#   npx hindsearch chat runs/first "..."      watch it search
`;

/** A configuration to start from: what every training needs, each key with what it is for, as the schema says it. */
export function starterConfiguration(): string {
  const rows = new Map<string, KeyRow>();
  for (const { title, rows: of } of configurationSections()) {
    // Of mappings with kinds, those that the starter uses.
    if (/, kind (?!memory|chat)/.test(title)) continue;
    for (const row of of) rows.set(row.key, row);
  }
  const lines = [HEADER.trimEnd()];
  let section = "";
  for (const [key, value] of STARTER) {
    const [top = "", name = ""] = key.split(".");
    const text = rows.get(key)?.text ?? "";
    if (top !== section) lines.push("", `# ${rows.get(top)?.text ?? ""}`, `${top}:`);
    section = top;
    if (text !== "") lines.push(`  # ${text}`);
    const preset = rows.get(key)?.default;
    const shown = value?.replace("# ", "") ?? (preset === undefined ? "" : JSON.stringify(preset));
    const isComment = value === undefined || value.startsWith("# ");
    lines.push(`  ${isComment ? "# " : ""}${name}: ${shown}`.trimEnd());
  }
  return `${lines.join("\n")}\n`;
}

/** A program to start from: one question, answered by a trained model. */
export const STARTER_SCRIPT = `// Asks a trained model one question:  node ask.mjs MODEL_FOLDER CORPUS "the question"
// MODEL_FOLDER is what \`npx hindsearch export runs/first -o MODEL_FOLDER\` writes.
import { BoundProtocol, MemoryRetriever, Policy, readCorpus, rollout, searchR1 } from "hindsearch";

const [folder, corpus, question] = process.argv.slice(2);
if (question === undefined) {
  console.error('usage: node ask.mjs MODEL_FOLDER CORPUS "the question"');
  process.exit(2);
}

try {
  const policy = await Policy.load(folder);
  const retriever = await MemoryRetriever.create(readCorpus(corpus));
  const protocol = searchR1({
    chat: policy.tokenizer.chatTemplate !== null,
    maxTokens: Math.min(4096, policy.config.maxPositions),
  });
  const decoder = await policy.createDecoder({ maxBatch: 1 });
  const { groups } = await rollout({
    decoder,
    retriever,
    protocol: new BoundProtocol(protocol, policy),
    questions: [{ id: "1", question, goldAnswers: ["unknown"] }],
    sampling: { temperature: 0, topK: 0, topP: 1, minP: 0 },
  });

  const [trajectory] = groups[0];
  for (const { query, passages } of trajectory.searches) {
    console.log("searched:", query);
    for (const { title, text } of passages) console.log("  found:", title, text.slice(0, 80));
  }
  console.log("answer:", trajectory.answer ?? \`none (\${trajectory.status})\`);
  decoder.dispose();
  policy.dispose();
} catch (error) {
  // docs/troubleshooting.md of the package lists the codes.
  console.error(\`\${error.code ?? error.name}: \${error.message}\`);
  process.exitCode = 1;
}
`;
