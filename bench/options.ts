/** The command line of the bench. */
import { parseArgs } from "node:util";
import { UsageError, wholeNumber } from "../examples/world/command-line.js";
import type { PeerPaths } from "./peers/peers.js";
import { ROWS } from "./rows/rows.js";

/** What was asked for. */
export interface Options extends PeerPaths {
  /** Names of rows. */
  rows: readonly string[];
  peers: boolean;
  rounds: number;
  /** `undefined`: the engine's own choice. */
  threads: number | undefined;
  json: string;
}

/** Reads it. */
export function readOptions(): Options {
  const { values, positionals } = parse();
  const names = ROWS.map(({ name }) => name);
  const unknown = positionals.find((name) => !names.includes(name));
  if (unknown !== undefined)
    throw new UsageError(`There is no row "${unknown}". Rows are ${names.join(", ")}.`);
  return {
    rows: positionals.length > 0 ? positionals : names,
    peers: values.peers,
    rounds: wholeNumber("rounds", values.rounds, 1),
    threads: values.threads === undefined ? undefined : wholeNumber("threads", values.threads, 1),
    json: values.json,
    python: values.python,
    torchScript: values["torch-script"],
    llama: values.llama,
    nodeLlama: values["node-llama"],
  };
}

function parse() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        peers: { type: "boolean", default: false },
        rounds: { type: "string", default: "3" },
        threads: { type: "string" },
        json: { type: "string", default: "build/bench/results.json" },
        python: { type: "string", default: "/usr/bin/python3" },
        "torch-script": { type: "string" },
        llama: { type: "string" },
        "node-llama": { type: "string" },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
