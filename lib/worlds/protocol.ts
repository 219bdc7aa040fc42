import { type SearchProtocol, searchR1 } from "../agent/protocol.js";
import { TAGS } from "./vocabulary.js";

/**
 * The protocol of the generated world: one passage a search, at most four searches, no thinking aloud. The prompt is
 * `question: mentor of author of NAME?`, with `hint: CRITIQUE.` before it for the teacher.
 */
export function worldProtocol(): SearchProtocol {
  return searchR1({
    name: "world",
    tags: {
      search: { open: TAGS.searchOpen, close: TAGS.searchClose },
      information: { open: TAGS.informationOpen, close: TAGS.informationClose },
      answer: { open: TAGS.answerOpen, close: TAGS.answerClose },
    },
    chat: false,
    prompt: (question, hint) => [
      { text: "<s>", trusted: true },
      ...(hint === undefined
        ? []
        : [
            { text: hint === "" ? "hint:" : "hint: ", trusted: true },
            { text: hint, trusted: false },
            { text: ". ", trusted: true },
          ]),
      { text: "question: ", trusted: true },
      { text: question, trusted: false },
    ],
    maxSearches: 4,
    passagesPerSearch: 1,
    // A search of three words and its two tags, or an answer, with room for a slip.
    maxTurnTokens: 8,
    maxObservationTokens: 40,
    maxTokens: 192,
    formatPassages: (passages) => passages.map(({ text }) => text).join(" "),
    observationFrame: { before: "", after: "" },
    notice: "",
  });
}
