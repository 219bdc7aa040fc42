import { describe, expect, it } from "vitest";
import { Random } from "../../lib/data/random.js";
import { createTokenizer } from "../../lib/policy/tokenizer.js";
import { MemoryRetriever } from "../../lib/retrieval/memory.js";
import { demonstrate, tabulateSearches, vagueName } from "../../lib/worlds/demonstrations.js";
import { planText, ScriptedJudge } from "../../lib/worlds/judge.js";
import { worldProtocol } from "../../lib/worlds/protocol.js";
import { worldTokenizerConfig, worldTokenizerJson } from "../../lib/worlds/vocabulary.js";
import { Demonstrations } from "../../lib/worlds/warm-start.js";
import { byHops, drawPath, World } from "../../lib/worlds/world.js";

const tokenizer = createTokenizer(worldTokenizerJson(), worldTokenizerConfig());

describe("a generated world", () => {
  it("is a function of its seed", () => {
    expect(new World(7).passages()).toEqual(new World(7).passages());
    expect(new World(7).passages()).not.toEqual(new World(8).passages());
  });

  it("writes every passage and question in words of one token", () => {
    const world = new World(7);
    const unknown = tokenizer.encodeText("zebra").at(-1) as number;
    const questions = world.paths(world.ofKind("book")).map((path) => world.question(path).question);
    for (const text of [...world.passages().map((passage) => passage.text), ...questions.slice(0, 300)]) {
      const ids = tokenizer.encodeText(text);
      const words = text.split(/\s+/).reduce((sum, word) => sum + (/[.,?]$/.test(word) ? 2 : 1), 0);
      expect(ids).not.toContain(unknown);
      expect(ids).toHaveLength(words);
      expect(tokenizer.decode(ids).trim()).toBe(text);
    }
  });

  it("reads its questions back into the path that made them", () => {
    const world = new World(9);
    for (const path of world.paths(world.ofKind("book").slice(0, 4))) {
      expect(world.parse(world.question(path).question)).toEqual(path);
    }
    expect(world.parse("mentor of Nobody?")).toBeUndefined();
  });

  it("lets a full name find its entity and a vague one find it sometimes", async () => {
    const world = new World(7);
    const find = await tabulateSearches(world, await MemoryRetriever.create(world.passages()));
    for (const kind of ["book", "person", "press", "town"] as const) {
      const entities = world.ofKind(kind);
      expect(entities.every((entity) => find(entity.name) === entity)).toBe(true);
      const hits = entities.filter((entity) => find(vagueName(entity)) === entity).length / entities.length;
      expect(hits).toBeGreaterThan(0.1);
      expect(hits).toBeLessThan(0.6);
    }
  });
});

describe("demonstrations", () => {
  it("are right in the shares that the habits say, and always when every search is hinted", async () => {
    const world = new World(3);
    const find = await tabulateSearches(world, await MemoryRetriever.create(world.passages()));
    const paths = byHops(world.paths(world.ofKind("book")));
    const random = new Random("test", 1);
    const share = (hops: number, hinted: ReadonlySet<number>) => {
      let right = 0;
      for (let i = 0; i < 600; i++) {
        const path = random.pick(paths[hops - 1] ?? []);
        const last = demonstrate(world, find, path, hinted, random, 4).at(-1)?.text;
        if (last === `<answer> ${path.chain.at(-1)?.name} </answer>`) right++;
      }
      return right / 600;
    };
    expect(share(1, new Set())).toBeGreaterThan(0.5);
    expect(share(2, new Set())).toBeLessThan(0.4);
    expect(share(3, new Set())).toBeLessThan(0.2);
    expect(share(3, new Set([0, 1, 2]))).toBeGreaterThan(0.8);
  });

  it("are a function of seed and index, with weight 0 on the first token", async () => {
    const mixture = {
      worlds: 2,
      hops: [0.2, 0.4, 0.4] as const,
      realHint: 0.4,
      wholeChain: 0.7,
      genericHint: 0.05,
      emptyHint: 0.05,
      otherHint: 0.1,
      readWeight: 0.1,
    };
    const make = (seed: number) => Demonstrations.create(tokenizer, worldProtocol(), seed, mixture);
    const [one, same, other] = [await make(0), await make(0), await make(1)];
    expect(one.at(5)).toEqual(same.at(5));
    expect(one.at(5)).not.toEqual(other.at(5));
    for (let i = 0; i < 50; i++) {
      const { tokens, weights } = one.at(i);
      expect(weights).toHaveLength(tokens.length);
      expect(weights[0]).toBe(0);
      expect(weights).toContain(1);
      expect(tokens.length).toBeLessThan(worldProtocol().maxTokens);
    }
  });
});

describe("the scripted judge", () => {
  const world = new World(7);
  const path = drawPath(byHops(world.paths(world.ofKind("book"))), [0, 0, 1], new Random("judge", 1));
  const { question, goldAnswers } = world.question(path);
  const input = { question, goldAnswers, steps: [], answer: null };
  const searched = path.chain.slice(0, -1);

  it("names every search of the chain and never the answer", async () => {
    const critique = await new ScriptedJudge(world).critique(input);
    expect(critique).toEqual({ status: "ok", text: planText(searched) });
    expect(planText(searched)).not.toContain(goldAnswers[0]);
  });

  it("names the first search that was missed", async () => {
    const judge = new ScriptedJudge(world, "first-missed");
    const [first, second] = searched;
    const passage = first && world.passage(first);
    if (!first || !second || !passage) throw new Error("the path has three hops");
    expect(await judge.critique(input)).toEqual({ status: "ok", text: planText([first]) });
    const steps = [{ query: first.name, passages: [passage] }];
    expect(await judge.critique({ ...input, steps })).toEqual({ status: "ok", text: planText([second]) });
  });

  it("knows only what the question names without the gold answer", async () => {
    const critique = await new ScriptedJudge(world).critique({ ...input, goldAnswers: null });
    expect(critique).toEqual({ status: "ok", text: planText(searched.slice(0, 1)) });
  });

  it("does not pretend to know questions of another world", async () => {
    const strange = { ...input, question: "mentor of Nobody?" };
    expect(await new ScriptedJudge(world).critique(strange)).toMatchObject({ status: "failed" });
    const wrong = { ...input, goldAnswers: ["Nobody"] };
    expect(await new ScriptedJudge(world).critique(wrong)).toMatchObject({ status: "failed" });
  });
});
