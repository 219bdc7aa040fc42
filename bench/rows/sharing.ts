import type { DecoderStats } from "hindsearch";
import { atMost } from "../figure.js";
import { inFreshProcess } from "../fresh-process.js";
import type { Row } from "../row.js";
import type { SharingTask } from "../work/sharing.js";

const WORK = new URL("../work/sharing.ts", import.meta.url);
const TASK: SharingTask = { group: 8, prompt: 1000, newTokens: 64 };
const PAGE_TOKENS = 16;

/** A group that shares its prompt: counts, which are the same on every machine. */
export const sharing: Row = {
  name: "sharing",
  async measure(bench) {
    const { result } = await inFreshProcess<SharingTask, DecoderStats>(WORK, TASK, bench);
    const { group, prompt, newTokens } = TASK;
    const fullPages = Math.floor(prompt / PAGE_TOKENS);
    const ownPages = Math.ceil((prompt + newTokens) / PAGE_TOKENS) - fullPages;
    // Behind its last full page every sequence has its own.
    const pages = fullPages + group * ownPages;
    // To draw its first token, every sequence needs the logits of the prompt's last token.
    const once = prompt + group - 1;
    const taken = result.promptTokens + result.repeatedTokens;
    return [
      {
        row: "sharing",
        name: `prompt of ${prompt}, group of ${group}: tokens run for it`,
        unit: "tokens",
        value: taken,
        samples: [taken],
        targets: [atMost(once, "tokens: once, the last one for each sequence", taken)],
        details: result,
      },
      {
        row: "sharing",
        name: "pages of 16 tokens held at most",
        unit: "pages",
        value: result.pagesPeak,
        samples: [result.pagesPeak],
        targets: [atMost(pages, "pages: the prompt's full ones once", result.pagesPeak)],
      },
    ];
  },
};
