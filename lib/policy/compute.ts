import type { ComputeType } from "../native/model.js";
import type { OpenDevice } from "./device.js";
import type { Compute } from "./policy-options.js";

/**
 * What `auto` means on a device: every GPU that the engine runs on multiplies bfloat16, processors say so.
 *
 * @internal
 */
export function chooseCompute(compute: Compute = "auto", { device, addon }: OpenDevice): ComputeType {
  if (compute !== "auto") return compute;
  return device === "cuda" || addon.instructionSet.includes("bf16") ? "bf16" : "f32";
}
