import type { CompletionPiece } from "./completion.js";
import type { EventStream } from "./event-stream.js";
import type { ReplyForm, WholeChoice } from "./replies.js";

/** Where the pieces of an answer go. */
export interface Reply {
  /** Takes a piece. @returns When the next one may be written, if not at once. */
  piece(piece: CompletionPiece): Promise<void> | undefined;
  /** Writes the end. */
  end(promptTokens: number): Promise<void>;
}

/** Gathers the pieces for one JSON answer. */
export function wholeReply(form: ReplyForm, choices: number, send: (body: object) => void): Reply {
  const all = Array.from(
    { length: choices },
    (): WholeChoice => ({ text: "", tokens: [], logProbs: [], finish: "stop" }),
  );
  return {
    piece({ choice, text, tokens, logProbs, finish }) {
      const whole = all[choice] as WholeChoice;
      whole.text += text;
      // One by one: arguments are on the stack, which a long answer would overflow.
      for (const token of tokens) whole.tokens.push(token);
      for (const logProb of logProbs) whole.logProbs.push(logProb);
      if (finish !== null) whole.finish = finish;
      return undefined;
    },
    async end(prompt) {
      const completion = all.reduce((sum, { tokens }) => sum + tokens.length, 0);
      send(form.whole(all, { prompt, completion }));
    },
  };
}

/** Sends the pieces while they are written. */
export function streamedReply(form: ReplyForm, events: EventStream, withUsage: boolean): Reply {
  const opened = new Set<number>();
  let completion = 0;
  return {
    piece(piece) {
      if (!opened.has(piece.choice)) events.send(form.opening(piece.choice));
      opened.add(piece.choice);
      completion += piece.tokens.length;
      return events.send(form.piece(piece));
    },
    async end(prompt) {
      if (withUsage) events.send(form.usage({ prompt, completion }));
      await events.end();
    },
  };
}
