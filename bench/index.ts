/**
 * Measures how fast this package is on this machine, beside what the machine allows and beside other programs.
 *
 *     npm run bench
 *     npm run bench -- decode prompt --rounds 5
 *     npm run bench -- --peers --llama ~/llama.cpp/build/bin --node-llama ~/node-llama
 *
 * See README.md in this folder.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { loadavg } from "node:os";
import { dirname } from "node:path";
import { engine } from "hindsearch";
import { runCommand } from "../examples/world/command-line.js";
import type { Figure } from "./figure.js";
import type { Machine } from "./limits.js";
import { describe } from "./machine.js";
import { buildNative, runNative } from "./native.js";
import { readOptions } from "./options.js";
import { findPeers } from "./peers/peers.js";
import { settingLine, textTable } from "./report.js";
import { ROWS } from "./rows/rows.js";

/** Load average of a machine that does nothing else. */
const QUIET = 0.5;

await runCommand(async (signal) => {
  const options = readOptions();
  const threads = options.threads ?? engine.threads;
  const { rounds } = options;
  console.error("Building the native programs");
  await buildNative(signal);
  const peers = options.peers ? await findPeers(options) : {};
  if (options.peers) console.error(`Peers: ${Object.keys(peers).join(", ") || "none found"}`);
  const [machine] = await runNative<Machine>("machine_bench", [], { threads, signal });
  const setting = describe(machine as Machine, threads, rounds);
  console.error(settingLine(setting));
  const [load = 0] = setting.load.start;
  if (load > QUIET)
    console.error(`The load is ${load.toFixed(1)}: other work takes part in what is measured.`);

  const figures: Figure[] = [];
  for (const row of ROWS.filter(({ name }) => options.rows.includes(name))) {
    const log = (line: string) => console.error(`${row.name}: ${line}`);
    figures.push(...(await row.measure({ rounds, threads, signal, peers, log })));
    setting.load.end = loadavg();
    // After every row, so that a run that is stopped has not been for nothing.
    await mkdir(dirname(options.json), { recursive: true });
    await writeFile(options.json, `${JSON.stringify({ setting, figures }, null, 1)}\n`);
  }
  console.log(settingLine(setting));
  console.log(textTable(figures));
  console.error(`Written: ${options.json}`);
});
