import { loadAddon } from "../native/load.js";
import type { ComputeType } from "../native/model.js";
import type { Compute } from "./policy-options.js";

/**
 * What `auto` means on this machine.
 *
 * @internal
 */
export function chooseCompute(compute: Compute = "auto"): ComputeType {
  if (compute !== "auto") return compute;
  return loadAddon().instructionSet.includes("bf16") ? "bf16" : "f32";
}
