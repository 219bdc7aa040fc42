import type { SearchProtocol } from "../agent/protocol.js";
import { Random } from "../data/random.js";
import type { Tokenizer } from "../policy/tokenizer.js";
import { MemoryRetriever } from "../retrieval/memory.js";
import type { SupervisedExample } from "../training/supervised.js";
import { demonstrate, type FindEntity, tabulateSearches } from "./demonstrations.js";
import { planText } from "./judge.js";
import { byHops, drawPath, type HopShares, type Path, World } from "./world.js";

/** What the demonstrations are drawn from. Shares are of all demonstrations; the rest has no hint. */
export interface WarmStartMixture {
  /** Different worlds, so that the model must read: names mean nothing outside their world. */
  worlds: number;
  /** One, two and three hops. */
  hops: HopShares;
  /** With a hint that names the searches of the chain; followed. */
  realHint: number;
  /** Of those, the share that names the whole chain; the rest names a part of it. */
  wholeChain: number;
  /** With the hint that fits every question; not followed. */
  genericHint: number;
  /** With an empty hint; not followed. */
  emptyHint: number;
  /**
   * With the hint of another question; not followed. Without these any hint at all would switch good habits on, and a
   * shuffled hint would teach nearly as much as the right one.
   */
  otherHint: number;
  /** Weight of prompt and observation tokens; the policy's own have 1. */
  readWeight: number;
}

/** The demo's mixture. */
export const DEMO_MIXTURE: WarmStartMixture = {
  worlds: 64,
  hops: [0.15, 0.4, 0.45],
  realHint: 0.4,
  wholeChain: 0.7,
  genericHint: 0.05,
  emptyHint: 0.05,
  otherHint: 0.1,
  readWeight: 0.1,
};

/** The hint that says nothing about the question at hand. */
export const GENERIC_HINT = "use full names";

/** The seed of world i of the warm start; the worlds of training and evaluation have other ones. */
const FIRST_WORLD = 1_000;

interface Source {
  world: World;
  find: FindEntity;
  paths: Path[][];
}

/**
 * An endless, seeded stream of demonstrations from many worlds: imitation of a searcher with good and bad habits that
 * follows a hint when it fits. Demonstration i depends on (seed, i) alone.
 */
export class Demonstrations {
  private constructor(
    private readonly sources: readonly Source[],
    private readonly tokenizer: Tokenizer,
    private readonly protocol: SearchProtocol,
    private readonly mixture: WarmStartMixture,
    private readonly seed: number,
  ) {}

  /**
   * Generates the worlds and looks up what every search in them finds.
   *
   * @param tokenizer - Of the model to be trained.
   * @param protocol - How the searcher talks.
   * @param seed - Of all drawing.
   * @param mixture - What is shown how often.
   */
  static async create(
    tokenizer: Tokenizer,
    protocol: SearchProtocol,
    seed: number,
    mixture: WarmStartMixture = DEMO_MIXTURE,
  ): Promise<Demonstrations> {
    const sources: Source[] = [];
    for (let i = 0; i < mixture.worlds; i++) {
      const world = new World(FIRST_WORLD + i);
      const retriever = await MemoryRetriever.create(world.passages());
      const find = await tabulateSearches(world, retriever);
      const starts = world.entities.filter((entity) => entity.kind !== "land");
      sources.push({ world, find, paths: byHops(world.paths(starts)) });
    }
    return new Demonstrations(sources, tokenizer, protocol, mixture, seed);
  }

  /** Demonstration `index`. */
  at(index: number): SupervisedExample {
    const random = new Random("demonstration", this.seed, index);
    const { world, find, paths } = random.pick(this.sources);
    const path = drawPath(paths, this.mixture.hops, random);
    const { hint, hinted } = this.drawHint(paths, path, random);
    const prompt = this.tokenizer.encodePrompt(this.protocol.prompt(world.question(path).question, hint));
    const tokens = [...prompt];
    const weights = prompt.map((_, t) => (t === 0 ? 0 : this.mixture.readWeight));
    for (const piece of demonstrate(world, find, path, hinted, random, this.protocol.maxSearches)) {
      const ids = this.tokenizer.encodeText(piece.text);
      tokens.push(...ids);
      weights.push(...ids.map(() => (piece.policy ? 1 : this.mixture.readWeight)));
    }
    return { tokens, weights };
  }

  private drawHint(paths: Path[][], path: Path, random: Random): { hint?: string; hinted: Set<number> } {
    const { realHint, genericHint, emptyHint, otherHint, wholeChain, hops } = this.mixture;
    const none = 1 - realHint - genericHint - emptyHint - otherHint;
    const searched = path.relations.length;
    const hinted = new Set<number>();
    switch (random.weighted([realHint, genericHint, emptyHint, otherHint, none])) {
      case 0: {
        const whole = random.float() < wholeChain;
        const from = whole ? 0 : random.integer(searched);
        const to = whole ? searched : from + 1 + random.integer(searched - from);
        for (let hop = from; hop < to; hop++) hinted.add(hop);
        return { hint: planText(path.chain.slice(from, to)), hinted };
      }
      case 1:
        return { hint: GENERIC_HINT, hinted };
      case 2:
        return { hint: "", hinted };
      case 3: {
        const other = drawPath(paths, hops, random);
        return { hint: planText(other.chain.slice(0, -1)), hinted };
      }
      default:
        return { hinted };
    }
  }
}
