import { countPolicyTokens } from "../agent/masks.js";
import type { Trajectory } from "../agent/trajectory.js";
import type { AgentEvent } from "../agent/watched-agent.js";
import type { EventStream } from "./event-stream.js";
import type { ReplyHead } from "./replies.js";

/** Where the turns and the answer of an agent go. */
export interface AgentReply {
  /** Takes what the agent did. */
  event(event: AgentEvent): void;
  /** Writes the end. */
  end(trajectory: Trajectory): Promise<void>;
}

/** One JSON answer. */
export function wholeAgentReply(head: ReplyHead, send: (body: object) => void): AgentReply {
  let reasoning = "";
  return {
    event(event) {
      reasoning += reasoningOf(event);
    },
    async end(trajectory) {
      const message = {
        role: "assistant",
        content: trajectory.answer ?? "",
        refusal: null,
        reasoning_content: reasoning,
        search: searchOf(trajectory),
      };
      const choice = { index: 0, message, logprobs: null, finish_reason: finishOf(trajectory) };
      send({ ...head, object: "chat.completion", choices: [choice], usage: usageOf(trajectory) });
    },
  };
}

/** The turns as they are written, then the answer. */
export function streamedAgentReply(head: ReplyHead, events: EventStream, withUsage: boolean): AgentReply {
  const send = (delta: object, finish: string | null = null) => {
    const choice = { index: 0, delta, logprobs: null, finish_reason: finish };
    events.send({ ...head, object: "chat.completion.chunk", choices: [choice] });
  };
  send({ role: "assistant", content: "" });
  return {
    event: (event) => send({ reasoning_content: reasoningOf(event) }),
    async end(trajectory) {
      if (trajectory.answer !== null) send({ content: trajectory.answer });
      send({ search: searchOf(trajectory) }, finishOf(trajectory));
      const usage = usageOf(trajectory);
      if (withUsage) events.send({ ...head, object: "chat.completion.chunk", choices: [], usage });
      await events.end();
    },
  };
}

/** A turn as it was written; of passages the titles, since their text is long. */
function reasoningOf(event: AgentEvent): string {
  if (event.kind === "turn") return event.text;
  const titles = event.passages.map(({ title, id }) => title || id);
  return `\n[${titles.length === 0 ? "nothing found" : titles.join("; ")}]\n`;
}

function searchOf({ status, searches }: Trajectory) {
  return {
    status,
    searches: searches.map(({ query, passages }) => ({
      query,
      passages: passages.map(({ id, title }) => ({ id, title })),
    })),
  };
}

function finishOf({ status }: Trajectory): "stop" | "length" {
  return status === "truncated" ? "length" : "stop";
}

function usageOf(trajectory: Trajectory) {
  const prompt = trajectory.promptTokens.length;
  const completion = countPolicyTokens(trajectory);
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}
