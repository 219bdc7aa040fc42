#!/usr/bin/env node
import { hearEarly } from "./early-interrupt.js";

const words = process.argv.slice(2);
hearEarly(words);
const { runCommandLine } = await import("./program.js");
process.exitCode = await runCommandLine(words);
