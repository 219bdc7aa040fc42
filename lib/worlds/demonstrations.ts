import type { Random } from "../data/random.js";
import type { Retriever } from "../retrieval/retriever.js";
import { type Kind, type Relation, TAGS } from "./vocabulary.js";
import type { Entity, Path, World } from "./world.js";

/** A piece of a demonstrated response. Text of the policy is imitated; observations are only read. */
export interface DemonstrationPiece {
  text: string;
  policy: boolean;
}

/**
 * How the demonstrator behaves: a mixture of good and bad habits, one for each relation.
 *
 * A single chance of a good query for all relations would be one latent switch that reinforcement learning
 * flips in a few steps. Separate habits are many small things to learn, so that two methods can be compared.
 */
export interface Habits {
  /** Chance that the first query carries the full name. */
  first: number;
  /** Chance of a good later query, by the relation that was followed to get there. */
  later: Readonly<Record<Relation, number>>;
  /** Of bad later queries: the right entity under a vague name. */
  vague: number;
  /** Of the other bad steps: an answer too early. The rest search another name of the passage. */
  early: number;
  /** Chance to read the answer from the right place. */
  read: number;
  /** Chance to notice a wrong passage and to search again. */
  recover: number;
  /** Chance to make a hinted search as the hint says. */
  follow: number;
}

/** The demo's demonstrator; right about 60 / 27 / 7 % of the time at one, two and three hops. */
export const DEMO_HABITS: Habits = {
  first: 0.5,
  later: {
    author: 0.15,
    illustrator: 0.5,
    publisher: 0.4,
    birthplace: 0.5,
    employer: 0.15,
    mentor: 0.2,
    seat: 0.5,
    founder: 0.2,
    mayor: 0.2,
    country: 0.3,
  },
  vague: 0.15,
  early: 0.1,
  read: 0.95,
  recover: 0.1,
  follow: 0.97,
};

/** An entity's name without the word that makes it unique: no year, no first name, no second half. */
export function vagueName(entity: Entity): string {
  const words = entity.name.split(" ");
  const kept: Record<Kind, string[]> = {
    book: words.slice(0, 2),
    person: words.slice(1),
    press: words.slice(0, 1),
    town: words.slice(1),
    land: words,
  };
  return kept[entity.kind].join(" ");
}

/** What a demonstrator needs to know of the search engine: the best passage's entity, if any. */
export type FindEntity = (query: string) => Entity | undefined;

/**
 * One response of the demonstrator to a question.
 *
 * @param hinted hops (indexes into `path.chain`) whose search the prompt's hint names; there the right search is
 * made, elsewhere the habits decide.
 */
export function demonstrate(
  world: World,
  find: FindEntity,
  path: Path,
  hinted: ReadonlySet<number>,
  random: Random,
  maxSearches: number,
  habits: Habits = DEMO_HABITS,
): DemonstrationPiece[] {
  const pieces: DemonstrationPiece[] = [];
  const hops = path.relations.length;
  const answer = (entity: Entity) => {
    pieces.push({ text: `${TAGS.answerOpen} ${entity.name} ${TAGS.answerClose}`, policy: true });
    return pieces;
  };
  let hop = 0;
  let current: Entity | undefined;
  let wanted = path.chain[0] as Entity;
  for (let turn = 0; turn < maxSearches; turn++) {
    const told = current === undefined ? [] : [...current.relations.values()];
    const others = told.filter((entity) => entity !== wanted && entity.kind !== "land");
    const followed = path.relations[Math.min(hop, hops) - 1];
    const good = followed === undefined || current === undefined ? habits.first : habits.later[followed];
    const chance = random.float();
    let query = wanted.name;
    if (hinted.has(hop) && chance < habits.follow) {
      wanted = path.chain[hop] as Entity;
      query = wanted.name;
    } else if (chance >= good) {
      if (others.length === 0 || random.float() < habits.vague) query = vagueName(wanted);
      else if (random.float() < habits.early) return answer(random.pick(others));
      else {
        // A fixed confusion: mostly the first other name of the passage.
        wanted = (random.float() < 0.8 ? others[0] : others.at(-1)) as Entity;
        query = wanted.name;
      }
    }
    pieces.push({ text: `${TAGS.searchOpen} ${query} ${TAGS.searchClose}`, policy: true });
    const found = find(query);
    if (found === undefined) throw new Error(`the world's own name "${query}" finds nothing`);
    const text = world.passage(found)?.text;
    pieces.push({ text: `${TAGS.informationOpen} ${text} ${TAGS.informationClose}`, policy: false });
    const wrong = found !== wanted;
    current = found;
    if (wrong && random.float() < habits.recover && turn < maxSearches - 1) continue;
    hop++;
    const values = [...current.relations.values()];
    const asked = path.relations[hop - 1];
    const value = (asked === undefined ? undefined : current.relations.get(asked)) ?? random.pick(values);
    if (hop >= hops) return answer(random.float() < habits.read ? value : random.pick(values));
    if (value.kind === "land") return answer(value);
    wanted = value;
  }
  return answer(random.pick([...(current as Entity).relations.values()]));
}

/**
 * Searches every query that a demonstrator can make in a world once, so that demonstrations can be written without
 * waiting for the retriever each time.
 *
 * @param retriever - Over the passages of `world`; its best passage counts.
 */
export async function tabulateSearches(world: World, retriever: Retriever): Promise<FindEntity> {
  const named = world.entities.filter((entity) => entity.kind !== "land");
  const queries = [...new Set(named.flatMap((entity) => [entity.name, vagueName(entity)]))];
  const results = await retriever.search(queries, 1);
  const table = new Map(
    queries.map((query, i) => {
      const best = results[i]?.[0];
      return [query, best && world.find(best.title)];
    }),
  );
  return (query) => table.get(query);
}
