import { atLeast } from "../figure.js";
import { inFreshProcess } from "../fresh-process.js";
import { promptLimit } from "../limits.js";
import { MODELS } from "../models.js";
import { LLAMA, llamaPrompt } from "../peers/llama.js";
import { Rounds, type Sample } from "../rounds.js";
import { limitOf, machine, OURS, peerResults, type Row } from "../row.js";
import type { PromptTask } from "../work/prompt.js";

const WORK = new URL("../work/prompt.ts", import.meta.url);
const TASK: PromptTask = { model: "0.5B", compute: "bf16", length: 512 };

/** Taking in a prompt. */
export const prompt: Row = {
  name: "prompt",
  async measure(bench) {
    const run = async () => (await inFreshProcess<PromptTask, Sample>(WORK, TASK, bench)).result;
    const contenders = [machine(bench), { name: OURS, run }, ...llamaPrompt(bench, TASK)];
    const rounds = await Rounds.run(contenders, bench.rounds, bench.log);
    const samples = rounds.each(OURS, "rate");
    const peers = peerResults(rounds, "rate", [LLAMA]);
    return [
      {
        row: "prompt",
        name: `${TASK.model} ${TASK.compute}, ${TASK.length} tokens`,
        unit: "tok/s",
        value: rounds.median(OURS, "rate"),
        samples,
        limit: limitOf(rounds, samples, (m) => promptLimit(m, MODELS[TASK.model], TASK.compute, TASK.length)),
        peers,
        targets: [atLeast(1.6, `x ${LLAMA}`, peers[LLAMA]?.ratio)],
      },
    ];
  },
};
