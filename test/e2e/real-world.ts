import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Question } from "../../lib/data/question.js";
import { loadQuestions } from "../../lib/data/questions.js";
import { ChatJudge } from "../../lib/judge/chat.js";
import type { JsonObject } from "../../lib/policy/json-file.js";
import type { Policy, TokenizerFiles } from "../../lib/policy/policy.js";
import { CorpusIndex } from "../../lib/retrieval/embedded/corpus-index.js";
import type { Passage } from "../../lib/retrieval/passage.js";
import { readCorpus } from "../../lib/retrieval/sources/corpus.js";
import { completion, marked } from "../judge/chat-service.js";
import { LoopbackServer, sendJson } from "../support/loopback-server.js";
import { sharedPath } from "../support/shared.js";

/** Real questions, a real corpus with its index, the real tokenizer, and a judge that is asked over HTTP. */
export class RealWorld implements AsyncDisposable {
  private constructor(
    /** For whatever the tests write. */
    readonly folder: string,
    readonly retriever: CorpusIndex,
    readonly corpus: ReadonlyMap<string, Passage>,
    /** 2WikiMultihopQA. */
    readonly questions: readonly Question[],
    /** Of Qwen2.5-0.5B. */
    readonly config: JsonObject,
    readonly tokenizer: TokenizerFiles,
    readonly judgeServer: LoopbackServer,
  ) {}

  static async open(): Promise<RealWorld> {
    const folder = await mkdtemp(join(tmpdir(), "hindsearch-real-"));
    const file = sharedPath("data", "corpus", "multihop.jsonl.gz");
    await CorpusIndex.build(file, join(folder, "index"));
    const corpus = new Map<string, Passage>();
    for await (const passage of readCorpus(file)) corpus.set(passage.id, passage);
    const json = async (...path: string[]) => JSON.parse(await readFile(sharedPath("data", ...path), "utf8"));
    return new RealWorld(
      folder,
      await CorpusIndex.open(join(folder, "index")),
      corpus,
      await loadQuestions(sharedPath("data", "qa", "2wikimultihopqa", "dev_1000.jsonl")),
      await json("configs", "Qwen2.5-0.5B-Instruct", "config.json"),
      {
        json: await json("tokenizer", "qwen2.5", "tokenizer.json"),
        config: await json("tokenizer", "qwen2.5", "tokenizer_config.json"),
      },
      await LoopbackServer.start((request, response) => {
        const [, task] = request.body.messages;
        // The judge first asks, without a task, whether the server keeps to a schema; this one does not.
        if (task === undefined) {
          sendJson(response, completion("Hello."));
          return;
        }
        const query = /^Query: (.*)$/m.exec(task.content)?.[1];
        sendJson(response, completion(marked(request, `Do not search for "${query}" but for its parts.`)));
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.judgeServer[Symbol.asyncDispose]();
    await this.retriever.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  chatJudge({ tokenizer }: Policy): ChatJudge {
    return new ChatJudge({ baseURL: `${this.judgeServer.origin}/v1`, model: "loopback", tokenizer });
  }
}
