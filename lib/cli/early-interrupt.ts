import { writeSync } from "node:fs";
import { EXIT } from "./exit-codes.js";

/** Of the time before there is a command. */
const listeners = new Map<NodeJS.Signals, () => void>();

/**
 * Hears Ctrl-C and polite kills before there is a command: its code is being loaded, which takes longer than anything else
 * that it does before its first word. This file loads next to nothing.
 *
 * @param words - The command line.
 */
export function hearEarly(words: readonly string[]): void {
  for (const [name, exitCode] of [
    ["SIGINT", EXIT.interrupted],
    ["SIGTERM", EXIT.terminated],
  ] as const) {
    const listener = () => {
      try {
        // Written before the process ends, also into a pipe; one that is closed is nobody's business.
        if (words.includes("--json")) writeSync(1, `${JSON.stringify({ event: "stopped", exitCode })}\n`);
        else writeSync(2, "Stopped.\n");
      } finally {
        process.exit(exitCode);
      }
    };
    listeners.set(name, listener);
    process.on(name, listener);
  }
}

/** A command hears them itself. */
export function endEarly(): void {
  for (const [name, listener] of listeners) process.off(name, listener);
}
