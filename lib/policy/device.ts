import { HindsearchError, type HindsearchErrorCode } from "../errors.js";
import type { Addon, DeviceInfo, DeviceName } from "../native/addon.js";
import { callNative } from "../native/call.js";
import { loadAddon } from "../native/load.js";
import type { ComputeType } from "../native/model.js";
import { emitWarning } from "../warning.js";
import type { Device } from "./policy-options.js";

/** What a policy will compute on. */
export interface OpenDevice {
  device: DeviceName;
  addon: Addon;
}

/** All values of {@link Device}. @internal */
export const DEVICES = ["cpu", "cuda", "auto"] as const satisfies readonly Device[];

/** What keeps a GPU from being used, but nothing that can happen once it is used. */
const UNUSABLE: ReadonlySet<HindsearchErrorCode> = new Set(["DEVICE_UNAVAILABLE", "ADDON_LOAD_FAILED"]);

let hasWarned = false;

/**
 * Loads the engine of a device.
 *
 * @throws {@link HindsearchError} `DEVICE_UNAVAILABLE` or `ADDON_LOAD_FAILED` for `cuda`; what {@link loadAddon} throws.
 * @internal
 */
export async function openDevice(device: Device = "cpu"): Promise<OpenDevice> {
  if (!DEVICES.includes(device)) {
    throw new HindsearchError(
      "INVALID_ARGUMENT",
      `device is ${JSON.stringify(device)}, expected one of ${DEVICES.map((name) => `"${name}"`).join(", ")}.`,
    );
  }
  if (device === "cpu") return { device, addon: loadAddon() };
  try {
    return { device: "cuda", addon: await openCuda() };
  } catch (error) {
    if (device === "cuda" || !(error instanceof HindsearchError && UNUSABLE.has(error.code))) throw error;
    if (!hasWarned) emitWarning(`device "auto" takes the CPU: ${error.message}`);
    hasWarned = true;
    return { device: "cpu", addon: loadAddon() };
  }
}

/**
 * What is known of a device, without using it.
 *
 * @throws {@link HindsearchError} As {@link openDevice} with its name.
 * @internal
 */
export function deviceInfo(device: DeviceName): Promise<DeviceInfo> {
  return callNative(async () => loadAddon(device).device());
}

async function openCuda(): Promise<Addon> {
  const { available, reason } = await deviceInfo("cuda");
  if (!available) throw new HindsearchError("DEVICE_UNAVAILABLE", reason ?? "The GPU cannot be used.");
  return loadAddon("cuda");
}

/**
 * How far the log-prob of a rollout may be from that of the trainer, nats. On a GPU the two are computed by products of other
 * shapes, which cuBLAS may add in another order: float32 then rounds at 6e-8 of a sum, and in bf16 a sum may fall to the
 * other side of a rounding of 4e-3, a few dozen times one after the other. On the host's model of a GPU a trained small model
 * differs by up to 0.105 in bf16 and 1.3e-5 in f32 over 1,600 tokens of its own; a GPU has yet to be measured.
 *
 * @internal
 */
export function logProbTolerance({ device, compute }: { device: DeviceName; compute: ComputeType }): number {
  if (device === "cpu") return 0;
  return compute === "bf16" ? 0.25 : 1e-4;
}
