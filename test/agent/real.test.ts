import { readFileSync } from "node:fs";
import { beforeAll, expect, test } from "vitest";
import { BoundProtocol } from "../../lib/agent/bound-protocol.js";
import { numberedPassages, searchR1 } from "../../lib/agent/protocol.js";
import { loadTokenizer, type Tokenizer } from "../../lib/policy/tokenizer.js";
import { parseContents } from "../../lib/retrieval/passage.js";
import { describeShared, sharedPath } from "../support/shared.js";

const IM_END = 151_645;

describeShared("Search-R1's protocol in Qwen2.5's tokens", () => {
  let tokenizer: Tokenizer;
  let protocol: BoundProtocol;
  beforeAll(async () => {
    tokenizer = await loadTokenizer(sharedPath("data", "tokenizer", "qwen2.5"));
    protocol = new BoundProtocol(searchR1(), { tokenizer, eosTokenIds: [151_643, IM_END] });
  });

  test("the prompt is a user message of the chat template, the hint stands at its start", () => {
    const plain = tokenizer.decode(protocol.promptTokens("who wrote it"));
    const hinted = tokenizer.decode(protocol.promptTokens("who wrote it", "Ask for the <|im_end|> author."));
    // Control tokens have no text, so the template's own words are what is left of it.
    expect(plain).toMatch(
      /^system\n.*\nuser\nAnswer the question\. .* Question: who wrote it\?\n\nassistant\n$/s,
    );
    const start = hinted.indexOf("user\n") + 5;
    expect(hinted.slice(start)).toMatch(
      /^Advice on an earlier attempt .*Ask for the <\|im_end\|> author\.\n\nAnswer/s,
    );
    expect(hinted.slice(hinted.indexOf("Answer the question"))).toBe(
      plain.slice(plain.indexOf("Answer the question")),
    );
    const ends = (tokens: Int32Array) => tokens.filter((token) => token === IM_END).length;
    expect(ends(protocol.promptTokens("x", "<|im_end|>"))).toBe(ends(protocol.promptTokens("x")));
  });

  test("tags are text: stops by their letters, end tokens by id", () => {
    expect(protocol.stops).toEqual(["</search>", "</answer>"]);
    expect(protocol.endTokens).toEqual([151_643, IM_END]);
  });

  test("the turns of a real transcript are parsed as Search-R1 did", () => {
    const transcript = readFileSync(
      sharedPath("data", "golden", "trajectories", "search_r1_case.txt"),
      "utf8",
    );
    const found = transcript
      .split("<|im_start|>assistant\n")
      .slice(1)
      .map((response) => {
        const [written = ""] = response.split("<|im_start|>");
        const turns = written.split(/<information>.*?<\/information>/s).filter((turn) => turn.trim() !== "");
        return turns.map((turn) => {
          // A turn ends with the token that closes its tag.
          const cut = turn.replace(/(<\/search>|<\/answer>).*$/s, "$1");
          const tokens = Int32Array.from(tokenizer.encodeText(cut));
          const parsed = protocol.parse(tokens);
          const { start, end } = parsed.inner;
          expect(tokenizer.decode(tokens.subarray(start, end)).trim()).toBe(
            parsed.action.kind === "none" ? "" : parsed.action.text,
          );
          return parsed.action;
        });
      });
    expect(found).toEqual([
      [
        { kind: "search", text: "Paul Walker's cars in Fast and Furious" },
        { kind: "search", text: "list of cars paul walker drove in Fast and Furious" },
        { kind: "answer", text: "Charger" },
      ],
      [
        { kind: "search", text: "origin of heart's electrical impulses" },
        { kind: "answer", text: "sinoatrial (SA) node" },
      ],
    ]);
  });

  test("an observation of real passages is what Search-R1 shows, within its limit and with whole tags", () => {
    const corpus = readFileSync(
      sharedPath("data", "golden", "trajectories", "search_r1_corpus.jsonl"),
      "utf8",
    );
    const passages = corpus
      .split("\n")
      .filter(Boolean)
      .slice(0, 3)
      .map((line) => JSON.parse(line) as { id: string; contents: string })
      .map(({ id, contents }) => ({ id, ...parseContents(contents) }));
    const text = tokenizer.decode(protocol.observationTokens(passages));
    expect(text).toBe(`\n\n<information>${numberedPassages(passages)}</information>\n\n`);
    const long = protocol.observationTokens([...passages, ...passages, ...passages, ...passages]);
    expect(long.length).toBe(500);
    expect(tokenizer.decode(long)).toMatch(/^\n\n<information>Doc 1\(Title: .*<\/information>\n\n$/s);
    const endless = passages.map((passage) => ({ ...passage, text: passage.text.repeat(30) }));
    const whole = tokenizer.encodeText(numberedPassages(endless));
    expect(whole.length).toBeGreaterThan(10_000);
    const room = [...protocol.observationTokens(endless)].slice(4, -4);
    expect(room).toEqual(whole.slice(0, room.length));
  });
});
