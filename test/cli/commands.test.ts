import { mkdir, writeFile } from "node:fs/promises";
import { Writable } from "node:stream";
import { describe, expect, test, vi } from "vitest";
import { createProgram, runCommandLine } from "../../lib/cli/program.js";
import { commandLine } from "../support/command-line.js";
import { LoopbackServer, sendJson } from "../support/loopback-server.js";

vi.setConfig({ testTimeout: 60_000 });
const { path, run } = commandLine();

/** Runs a command line in this process: most of what is refused needs no other. */
async function inProcess(words: readonly string[]) {
  const said = { out: "", errors: "" };
  const stream = (name: "out" | "errors") =>
    new Writable({
      write(chunk, _encoding, done) {
        said[name] += chunk;
        done();
      },
    });
  const here = words.map((word) => (/\.(yaml|jsonl)$/.test(word) ? path(word) : word));
  const code = await runCommandLine(here, { out: stream("out"), errors: stream("errors") });
  return { code, ...said };
}

describe("usage", () => {
  test.each([
    [["trian"], /unknown command 'trian'[\s\S]*Did you mean train\?/],
    [["train"], /missing required argument/],
    [["train", "train.yaml", "--resmue"], /unknown option '--resmue'[\s\S]*--resume/],
    [["train", "nowhere.yaml"], /Cannot read the configuration .*nowhere\.yaml.*\(IO\)/, 3],
    [
      ["train", "train.yaml", "--set", "training.steps=1e30"],
      /training\.steps is 1e\+30, expected a whole number of at least 1 and of at most 9007199254740991\. \(INVALID_C/,
    ],
    [
      ["train", "train.yaml", "--set", "retriever={ kind: http, url: http://x, timeoutMs: 1e10 }"],
      /timeoutMs is 10000000000, expected .* and of at most 2147483647/,
    ],
    [
      ["train", "train.yaml", "--set", "training.questionsPerStep=9007199254740991"],
      /questionsPerStep \* groupSize is 45035996273704950, expected at most 9007199254740991.*\(INVALID_ARG/,
    ],
    [
      ["estimate", "train.yaml", "--set", "training.questionsPerStep=9007199254740991"],
      /questionsPerStep \* groupSize is 45035996273704950, expected at most 9007199254740991/,
    ],
    [
      ["train", "train.yaml", "--set", "training.microBatchTokens=9e9"],
      /microBatchTokens is 9000000000, expected .* and of at most 2147483647/,
    ],
    [
      ["train", "train.yaml", "--set", "training.steps=9007199254740991"],
      /steps \* miniBatches is 18014398509481982, expected at most/,
    ],
    [
      ["search", "x", "--config", "train.yaml", "--set", "retriever={ kind: http, url: 'ftp://x/y' }"],
      /--set retriever: retriever\.url is "ftp:..x.y", must be an http or https address\./,
    ],
    [
      ["train", "train.yaml", "--set", "judge={ kind: chat, baseURL: ftp://x, model: m }"],
      /must be an http or https/,
    ],
    [["train", "train.yaml", "--set", "training.stepz=3"], /--set training\.stepz: .*Did you mean steps\?/],
    [["train", "train.yaml", "--set", "model.folder=elsewhere"], /elsewhere.*\(INVALID_CHECKPOINT\)/, 3],
    [["train", "train.yaml", "--set", "training.groupSize=1.5"], /is 1\.5, expected a whole number/],
    [["search", "x"], /one of --config, --index, --corpus and --url; none is given/],
    [["search", "x", "--index", "a", "--url", "http://b"], /--index and --url/],
    [["search", "x", "--url", "http://user:secret-word@host"], /--url must be an http or https address/],
    [["search", "x", "--url", "http://127.0.0.1:9", "--top", "0"], /whole number from 1/],
    [["search", " ", "--url", "http://127.0.0.1:9"], /text to ask for is empty/],
    [["chat", "train.yaml", ""], /text to ask for is empty/],
    [["serve", "train.yaml", "--port", "99999"], /whole number from 0 to 65535/],
    [["train", "/dev/zero"], /Cannot read the configuration \/dev\/zero: .* at most 1048576 bytes/, 3],
    [["search", "x", "--index", "nowhere"], /nowhere is not a search index.*\(INVALID_DATA\)/, 3],
    [["eval", "train.yaml", "--questions", "corpus.jsonl"], /corpus\.jsonl, line 1.*\(INVALID_DATA\)/, 3],
    [
      ["eval", "train.yaml", "--questions", "nope"],
      /^hindsearch: --questions nope: Cannot read \S+nope: there is no such file\. \(IO\)$/m,
      3,
    ],
    [
      ["eval", "train.yaml", "--set", "evaluation.questions=nope"],
      /train\.yaml, --set evaluation\.questions: evaluation\.questions: Cannot read \S+nope: there is no such file/,
      3,
    ],
    [
      ["train", "train.yaml", "--set", "data.questions=nope"],
      /--set data\.questions: data\.questions: Cannot read \S+nope/,
      3,
    ],
    [["eval", "nowhere"], /Cannot read the configuration nowhere: there is no such file or folder\./, 3],
    [
      ["eval", "."],
      /^hindsearch: \. is no run folder of the command line: training\.yaml, which train writes, /,
      3,
    ],
    [["config", "training.kl.wieght"], /no key training\.kl\.wieght\. Did you mean training\.kl\.weight\?/],
  ] as [string[], RegExp, number?][])("%j is refused", async (words, message, expected = 2) => {
    const { code, out, errors } = await inProcess(words);
    expect(errors).toMatch(message);
    expect(errors).not.toMatch(/secret-word|\n {4}at /);
    expect(out).toBe("");
    expect(code).toBe(expected);
  });

  test("an error is an object as well with --json", async () => {
    const { out, code } = await inProcess(["train", "nowhere.yaml", "--json"]);
    expect(JSON.parse(out)).toMatchObject({ event: "error", code: "IO" });
    expect(code).toBe(3);
  });

  test.each([[["--json", "trian"]], [["train", "--json"]], [["--json", "serve", "r", "--port", "x"]]])(
    "so is a wrong command line: %j",
    async (words) => {
      const { out, code } = await inProcess(words);
      expect(JSON.parse(out)).toMatchObject({ event: "error", code: "INVALID_ARGUMENT" });
      expect(out).not.toContain("error: ");
      expect(code).toBe(2);
    },
  );

  test.skipIf(process.platform === "win32")("Ctrl-C before there is a command is an event too", async () => {
    // As soon as anybody hears it.
    const press = `const { on } = process; process.on = function (name, listener) {
      if (name === "SIGINT") setImmediate(() => process.kill(process.pid, name));
      return on.call(this, name, listener);
    };`;
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(press)}` };
    const told = await run(["train", "nowhere.yaml", "--json"], { env });
    expect(told).toMatchObject({ code: 130, events: [{ event: "stopped", exitCode: 130 }], stderr: "" });
    const plain = await run(["train", "nowhere.yaml"], { env });
    expect(plain).toMatchObject({ code: 130, stdout: "", stderr: "Stopped.\n" });
  });

  test("--help and --version end well", async () => {
    const { code, stdout } = await run(["--help"]);
    expect(code).toBe(0);
    for (const command of createProgram().commands) expect(stdout).toContain(command.name());
    expect((await inProcess(["--version"])).out).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect((await inProcess(["train", "--help"])).out).toMatch(/retriever +What searches\. Required\./);
  });
});

describe("search", () => {
  test("in a corpus", async () => {
    const { code, stdout } = await run([
      "search",
      "colour",
      "of",
      "eve",
      "--corpus",
      "corpus.jsonl",
      "--top",
      "1",
    ]);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/colour of eve\n {2}1\. eve {2}\[eve\] {2}\d\.\d+\n {5}eve is /),
    });
  });

  test("as a configuration says, for programs", async () => {
    const { events } = await run(["search", "eve", "--config", "train.yaml", "--json"]);
    expect(events).toMatchObject([
      { event: "search", query: "eve", passages: [{ id: "eve", score: expect.any(Number) }] },
    ]);
  });

  test("hostile passages do not steer the terminal", async () => {
    await using server = await LoopbackServer.start((_request, response) =>
      sendJson(response, {
        result: [
          [
            {
              document: {
                id: "1\u001b[2J",
                contents: '"ti\u202etle\u001b]0;x\u0007"\n\u001b[31mred\r\nmore',
              },
              score: 1,
            },
          ],
        ],
      }),
    );
    const { code, stdout } = await run(["search", "x", "--url", `${server.origin}/retrieve`]);
    expect(code).toBe(0);
    expect(stdout).toContain("red more");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
    expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
  });

  test("a service that is away is exit code 4", async () => {
    const away = `retriever={ kind: http, url: "http://127.0.0.1:9/retrieve", retries: 0 }`;
    const { code, stderr } = await run(["search", "x", "--config", "train.yaml", "--set", away]);
    expect({ code, stderr }).toEqual({ code: 4, stderr: expect.stringContaining("(RETRIEVAL_FAILED)") });
  });
});

describe("index", () => {
  test("over a folder of text, then searched; the same call again leaves it as it is", async () => {
    await mkdir(path("notes"));
    await writeFile(
      path("notes/tides.md"),
      "# Tides\n\nThe moon pulls the sea. Spring tides come at new moon.\n",
    );
    await writeFile(path("notes/bees.txt"), "Bees dance to tell each other where the flowers are.\n");
    const built = await run(["index", "notes", "-o", "notes-index", "--json"]);
    expect(built.code, built.stderr).toBe(0);
    expect(built.events.at(-1)).toMatchObject({
      event: "index",
      folder: "notes-index",
      passages: 2,
      analyzer: "plain",
    });
    const found = await run(["search", "where are the flowers", "--index", "notes-index", "--top", "1"]);
    expect(found.stdout).toMatch(/1\. bees[\s\S]*Bees dance/);
    const again = await run(["index", "notes", "-o", "notes-index"]);
    expect(again).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/2 passages[\s\S]*hindsearch search/),
    });
    const other = await run(["index", "corpus.jsonl", "-o", "notes-index"]);
    expect(other).toMatchObject({ code: 3, stderr: expect.stringContaining("(INDEX_MISMATCH)") });
  });
});

test("config lists keys with their defaults, and the schema for editors", async () => {
  const { out } = await inProcess(["config", "training.kl"]);
  expect(out).toMatch(/training\.kl\.estimator: one of k1, k2, k3 \(default "k3"\)/);
  const { out: schema } = await inProcess(["config", "--schema"]);
  expect(JSON.parse(schema)).toMatchObject({ type: "object", additionalProperties: false });
});
