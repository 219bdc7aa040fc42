/** What the demo and the ablation do alike as commands: options, errors in one line, Ctrl-C. */
import { parseArgs } from "node:util";

/** Something the user got wrong; its message is all that is printed, and the exit code is 2. */
export class UsageError extends Error {}

/** The values of options that all are texts, with their defaults. */
export function readOptions<Name extends string>(
  defaults: Readonly<Record<Name, string | undefined>>,
): Record<Name, string> {
  const options = Object.fromEntries(
    Object.entries<string | undefined>(defaults).map(([name, value]) => [
      name,
      { type: "string" as const, ...(value !== undefined && { default: value }) },
    ]),
  );
  try {
    return parseArgs({ options }).values as Record<Name, string>;
  } catch (error) {
    const [line] = (error as Error).message.split("\n");
    const names = Object.keys(defaults).map((name) => `--${name}`);
    throw new UsageError(`${line?.replace(/\.$/, "")}. Options are ${names.join(", ")}.`);
  }
}

/** A whole number of at least `least`. */
export function wholeNumber(name: string, text: string, least: number): number {
  if (/^\d+$/.test(text.trim()) && Number.isSafeInteger(Number(text)) && Number(text) >= least)
    return Number(text);
  throw new UsageError(`--${name} is "${text}", expected a whole number from ${least}.`);
}

/** A finite number of at least 0. */
export function weightOf(name: string, text: string): number {
  if (text.trim() !== "" && Number.isFinite(Number(text)) && Number(text) >= 0) return Number(text);
  throw new UsageError(`--${name} is "${text}", expected a number from 0.`);
}

/** An http or https address without user and password. */
export function address(name: string, text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol) && url.username + url.password === "") return text;
  throw new UsageError(`--${name} must be an http or https address without user and password.`);
}

/**
 * Runs a command. Its signal fires on Ctrl-C, and when the command fails, so that no process of its own is left behind.
 * Exit codes: 2 for what the user got wrong, 1 for other failures, 130 for Ctrl-C, 143 for a polite kill.
 */
export async function runCommand(command: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  for (const [signal, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const) {
    process.once(signal, () => {
      process.exitCode = code;
      stop.abort();
    });
  }
  try {
    await command(stop.signal);
  } catch (error) {
    if (stop.signal.aborted) console.error("Stopped.");
    else {
      console.error(error instanceof Error ? error.message : String(error));
      process.exitCode = isUsage(error) ? 2 : 1;
    }
    stop.abort();
  }
}

function isUsage(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return (
    error instanceof UsageError || ["EACCES", "EEXIST", "ENOTDIR", "EROFS", "EPERM"].includes(String(code))
  );
}
