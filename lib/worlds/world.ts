import type { Question } from "../data/question.js";
import { Random } from "../data/random.js";
import type { Passage } from "../retrieval/passage.js";
import { type Kind, NAME_PARTS, RELATIONS, type Relation } from "./vocabulary.js";

/** Something that has a name. All kinds but `land` have one passage, which tells their relations. */
export interface Entity {
  /** Its place in {@link World.entities}. */
  id: number;
  /** What it is. */
  kind: Kind;
  /** Unique in its world. */
  name: string;
  /** What this entity says about others, in the order of its passage. */
  relations: Map<Relation, Entity>;
}

/** A question as the relations to follow from a start: `mentor of author of BOOK` is ["author", "mentor"]. */
export interface Path {
  /** From the start on, the reverse of how the question puts them. */
  relations: Relation[];
  /** `chain[0]` is named in the question, `chain[i]` says `relations[i]` of `chain[i + 1]`; the last is the answer. */
  chain: Entity[];
}

/** Sizes of a world. */
export interface WorldOptions {
  /** Every title is shared by this many books that differ in the year only. Default 4. */
  booksPerTitle?: number;
  /** Default 18. */
  titles?: number;
  /** Default 80; with 24 last names about three persons share one. */
  persons?: number;
  /** Default 40. */
  presses?: number;
  /** Default 40. */
  towns?: number;
}

/**
 * A generated corpus of entities that refer to one another, with questions that take one to three searches.
 *
 * Names are drawn anew in every world from the same words, so a model cannot know a world by heart: it has to
 * search and read. Several names share words on purpose. A book's title without its year finds one of four
 * books, a last name alone finds one of about three persons: a search is good or bad by how it is worded.
 */
export class World {
  /** What it was generated from. */
  readonly seed: number;
  /** All of them, by id. */
  readonly entities: readonly Entity[];
  private readonly byName: Map<string, Entity>;

  constructor(seed: number, options: WorldOptions = {}) {
    const { booksPerTitle = 4, titles = 18, persons = 80, presses = 40, towns = 40 } = options;
    this.seed = seed;
    const random = new Random("world", seed);
    const pairs = (heads: readonly string[], tails: readonly string[]) =>
      heads.flatMap((head) => tails.map((tail) => `${head} ${tail}`));
    const names: Record<Kind, string[]> = {
      book: random
        .sample(pairs(NAME_PARTS.titleHead, NAME_PARTS.titleTail), titles)
        .flatMap((title) => random.sample(NAME_PARTS.year, booksPerTitle).map((year) => `${title} ${year}`)),
      person: random.sample(pairs(NAME_PARTS.first, NAME_PARTS.last), persons),
      press: random.sample(pairs(NAME_PARTS.pressHead, NAME_PARTS.pressTail), presses),
      town: random.sample(pairs(NAME_PARTS.townHead, NAME_PARTS.townTail), towns),
      land: [...NAME_PARTS.land],
    };
    const kinds = Object.keys(names) as Kind[];
    const drafts = kinds.flatMap((kind) => names[kind].map((name) => ({ kind, name })));
    this.entities = drafts.map(({ kind, name }, id) => ({ id, kind, name, relations: new Map() }));
    this.byName = new Map(this.entities.map((entity) => [entity.name, entity]));
    for (const entity of this.entities) {
      for (const { relation, range } of RELATIONS[entity.kind]) {
        const taken = new Set(entity.relations.values());
        const candidates = this.ofKind(range).filter((other) => other !== entity && !taken.has(other));
        entity.relations.set(relation, random.pick(candidates));
      }
    }
  }

  /** All entities of a kind. */
  ofKind(kind: Kind): Entity[] {
    return this.entities.filter((entity) => entity.kind === kind);
  }

  /** The entity of exactly that name. */
  find(name: string): Entity | undefined {
    return this.byName.get(name);
  }

  /** The passage of an entity, `undefined` for a land. Its title is the name and its text starts with it. */
  passage(entity: Entity): Passage | undefined {
    const facts = RELATIONS[entity.kind];
    if (facts.length === 0) return undefined;
    const told = facts.map(({ relation, phrase }) => `${phrase} ${entity.relations.get(relation)?.name}`);
    return {
      id: String(entity.id),
      title: entity.name,
      text: `${entity.name} ${told.join(" ").replaceAll(" ,", ",")}.`,
    };
  }

  /** The corpus, in an order that says nothing about the entities. */
  passages(): Passage[] {
    const all = this.entities.flatMap((entity) => this.passage(entity) ?? []);
    return new Random("corpus", this.seed).shuffle(all);
  }

  /** Every path of one to `longest` relations from `starts` that meets no entity twice. */
  paths(starts: readonly Entity[], longest = 3): Path[] {
    const found: Path[] = [];
    const walk = (path: Path) => {
      if (path.relations.length > 0) found.push(path);
      if (path.relations.length === longest) return;
      for (const [relation, next] of (path.chain.at(-1) as Entity).relations) {
        if (path.chain.includes(next)) continue;
        walk({ relations: [...path.relations, relation], chain: [...path.chain, next] });
      }
    };
    for (const start of starts) walk({ relations: [], chain: [start] });
    return found;
  }

  /** The question that asks for the end of a path, e.g. `mentor of author of Bapering Nufor 1907?` */
  question(path: Path): Question {
    const start = path.chain[0] as Entity;
    const asked = [...path.relations].reverse().map((relation) => `${relation} of`);
    return {
      id: `${this.seed}:${start.id}:${path.relations.join(".")}`,
      question: `${asked.join(" ")} ${start.name}?`,
      goldAnswers: [(path.chain.at(-1) as Entity).name],
      metadata: { hops: path.relations.length },
    };
  }

  /** Reads a question of this world back into its path; `undefined` if it is not one. */
  parse(question: string): Path | undefined {
    const parts = question.replace(/\?$/, "").trim().split(" of ");
    const start = this.find(parts.pop() ?? "");
    if (start === undefined) return undefined;
    const path: Path = { relations: [], chain: [start] };
    for (const relation of parts.reverse() as Relation[]) {
      const next = (path.chain.at(-1) as Entity).relations.get(relation);
      if (next === undefined) return undefined;
      path.relations.push(relation);
      path.chain.push(next);
    }
    return path;
  }
}

/** Shares of questions with one, two and three hops. */
export type HopShares = readonly [number, number, number];

/** Draws a path: first its number of hops by `shares`, then one of that length. */
export function drawPath(paths: readonly Path[][], shares: HopShares, random: Random): Path {
  return random.pick(paths[random.weighted(shares)] as Path[]);
}

/** Paths sorted by number of hops: `[one hop, two hops, three hops]`. */
export function byHops(paths: readonly Path[]): Path[][] {
  return [1, 2, 3].map((hops) => paths.filter((path) => path.relations.length === hops));
}
