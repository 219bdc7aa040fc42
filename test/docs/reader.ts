import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { warmPolicy } from "../../examples/own-loop/tiny-world.js";
import { Policy } from "../../lib/policy/policy.js";
import { HindSearchTrainer } from "../../lib/training/trainer.js";
import { buildPage } from "../../scripts/build-page.js";
import { completion } from "../judge/chat-service.js";
import { BuiltPackage } from "../support/built-package.js";
import { byteTokenizerJson } from "../support/byte-tokenizer.js";
import { type Handler, LoopbackServer, sendJson } from "../support/loopback-server.js";
import { OPTIONS } from "../support/tiny-trainer.js";
import { ROOT } from "./blocks.js";

const TEMPLATE =
  "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const PASSAGES = [
  { id: "1", title: "Free Guy", text: "Free Guy is a film of 2021. It was directed by Shawn Levy." },
  { id: "2", title: "Shawn Levy", text: "Shawn Levy was born in Montreal." },
  { id: "3", title: "Legend", text: "The score of the film Legend was written by Jerry Goldsmith." },
];
const lines = (rows: readonly unknown[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
const questions = (...texts: string[]) =>
  lines(texts.map((question) => ({ question, golden_answers: ["Montreal"] })));

/** The files that the pages speak of, by name. */
const FILES: Readonly<Record<string, string>> = {
  "notes/free-guy.md": "# Free Guy\n\nFree Guy is a film of 2021. It was directed by Shawn Levy.\n",
  "notes/people/levy.txt": "Shawn Levy was born in Montreal.\n",
  "corpus.jsonl": lines(PASSAGES),
  "train.yaml": [
    "model: { folder: Qwen2.5-0.5B-Instruct }",
    "data: { questions: train.jsonl }",
    "retriever: { kind: index, folder: notes-index }",
    "training: { steps: 1, questionsPerStep: 2, groupSize: 2 }",
    "run: { folder: runs/second }",
    "",
  ].join("\n"),
  "train.jsonl": questions("Where was the director of Free Guy born?", "Where was Shawn Levy born?"),
  "dev.jsonl": questions("In which town was the director of Free Guy born?"),
  "test.jsonl": questions("In which city was Shawn Levy born?"),
};

/** A small model with random weights under the name of the pages' model: what runs with it shows that it runs. */
async function writeModel(folder: string): Promise<void> {
  using policy = await Policy.initialize({
    config: {
      architectures: ["Qwen2ForCausalLM"],
      model_type: "qwen2",
      hidden_size: 32,
      intermediate_size: 64,
      num_hidden_layers: 1,
      num_attention_heads: 2,
      num_key_value_heads: 1,
      vocab_size: 259,
      max_position_embeddings: 4096,
      rms_norm_eps: 1e-6,
      rope_theta: 10_000,
      tie_word_embeddings: true,
      hidden_act: "silu",
      eos_token_id: 258,
    },
    tokenizer: {
      json: byteTokenizerJson(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
      config: { eos_token: "<|im_end|>" },
      chatTemplate: TEMPLATE,
    },
    compute: "f32",
  });
  await policy.save(folder);
}

/** A run of two steps in the tiny world of the examples. */
async function writeRun(runFolder: string): Promise<void> {
  using policy = await warmPolicy();
  for await (const _ of new HindSearchTrainer({ ...OPTIONS, policy, steps: 2, runFolder }));
}

/** Answers every chat request: between the marks that it is asked for, if there are any. */
const advise: Handler = ({ body }, response) => {
  const [, nonce] = JSON.stringify(body).match(/\[\[critique ([0-9a-f]+)\]\]/) ?? [];
  const advice = "Search for the director of the film first.";
  sendJson(
    response,
    completion(nonce === undefined ? advice : `[[critique ${nonce}]]${advice}[[end ${nonce}]]`),
  );
};

/** A port that nobody listens at. */
async function freePort(): Promise<string> {
  const server = await LoopbackServer.start(() => {});
  const { port } = new URL(server.origin);
  await server[Symbol.asyncDispose]();
  return port;
}

/** How a shell block ended. */
export interface ShellResult {
  code: number | null;
  output: string;
}

/** What a reader of the pages has: an installed package, a model, a corpus, questions, a judge, and a folder for each page. */
export class Reader implements AsyncDisposable {
  readonly #running = new Set<ChildProcess>();

  private constructor(
    private readonly folder: string,
    private readonly judge: LoopbackServer,
    private readonly port: string,
    private readonly built: BuiltPackage,
  ) {}

  static async create(): Promise<Reader> {
    await mkdir(join(ROOT, "build"), { recursive: true });
    // Inside the repository, so that what is imported there is found.
    const folder = await mkdtemp(join(ROOT, "build", "pages-"));
    const judge = await LoopbackServer.start(advise);
    const template = join(folder, "template");
    for (const [name, text] of Object.entries(FILES)) {
      await mkdir(join(template, name, ".."), { recursive: true });
      await writeFile(join(template, name), text);
    }
    await writeModel(join(template, "Qwen2.5-0.5B-Instruct"));
    // A checkout that was never built lacks the dashboard's page.
    const dashboard = join(ROOT, "dist/dashboard/page");
    if (!existsSync(join(dashboard, "index.html"))) await buildPage(dashboard);
    await writeRun(join(template, "runs", "earlier"));
    const built = new BuiltPackage();
    await built.create();
    await cp(dashboard, join(built.folder, "dist/dashboard/page"), { recursive: true });
    await install(template, built);
    return new Reader(folder, judge, await freePort(), built);
  }

  /** The folder in which the blocks of a page are run, one after the other. */
  async folderOf(page: string): Promise<string> {
    const folder = join(this.folder, page.replaceAll(/\W/g, "-"));
    await cp(join(this.folder, "template"), folder, { recursive: true, verbatimSymlinks: true });
    return folder;
  }

  /** A block's text with the addresses of this test in place of their names. */
  fill(text: string): string {
    return text.replaceAll("{JUDGE}", this.judge.origin).replaceAll("{PORT}", this.port);
  }

  /** Runs a script with bash to its end. */
  shell(folder: string, script: string): Promise<ShellResult> {
    const { child, result } = this.#start(folder, script);
    return result.finally(() => this.#running.delete(child));
  }

  /** Starts a script and waits until it prints the word. */
  async background(folder: string, script: string, word: string): Promise<void> {
    const { child, result } = this.#start(folder, script);
    const early = result.then(({ code, output }) => {
      throw new Error(`It ended with exit code ${code} before it printed "${word}":\n${output}`);
    });
    // Its end is no failure once the word was printed.
    early.catch(() => {});
    const printed = new Promise<void>((done) => {
      let output = "";
      child.stdout?.on("data", (chunk) => {
        output += chunk;
        if (output.includes(word)) done();
      });
    });
    await Promise.race([printed, early]);
  }

  #start(folder: string, script: string) {
    // npx takes what is in node_modules/.bin, as this does, and half a second of its own for each command.
    const child = spawn("bash", ["-euo", "pipefail", "-c", `npx() { command "$@"; }\n${script}`], {
      cwd: folder,
      env: {
        ...process.env,
        PATH: `${join(folder, "node_modules/.bin")}:${process.env.PATH}`,
        NODE_ENV: "production",
        JUDGE_KEY: "a key of the judge",
      },
      detached: true,
      // With a socket there, bash would read the machine's own settings first.
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#running.add(child);
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        output += chunk;
      });
    }
    const result = new Promise<ShellResult>((done) => child.on("close", (code) => done({ code, output })));
    return { child, result };
  }

  /** Ends what still runs, with all that it started. */
  stop(): void {
    for (const { pid } of this.#running) {
      try {
        if (pid !== undefined) process.kill(-pid, "SIGKILL");
      } catch {
        // It has ended already.
      }
    }
    this.#running.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    await this.judge[Symbol.asyncDispose]();
    await rm(this.folder, { recursive: true, force: true });
    await this.built.remove();
  }
}

/** `node_modules` as after `npm install hindsearch tsx`, and the files of the repository that pages name. */
async function install(folder: string, built: BuiltPackage): Promise<void> {
  const modules = join(folder, "node_modules");
  await mkdir(modules);
  for (const name of await readdir(join(ROOT, "node_modules"))) {
    if (name !== ".bin") await symlink(join(ROOT, "node_modules", name), join(modules, name));
  }
  await cp(join(ROOT, "node_modules", ".bin"), join(modules, ".bin"), {
    recursive: true,
    verbatimSymlinks: true,
  });
  await symlink(built.folder, join(modules, "hindsearch"));
  await symlink(join(ROOT, "examples"), join(built.folder, "examples"));
  const command = join(built.folder, "dist/cli/main.js");
  await chmod(command, 0o755);
  await symlink(command, join(modules, ".bin", "hindsearch"));
  await symlink(join(ROOT, "examples"), join(folder, "examples"));
  // Not the package's own: npx would then look for the command in the folder itself.
  await writeFile(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ extends: join(ROOT, "tsconfig.json") }));
}
