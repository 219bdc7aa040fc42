import type { DeviceInfo, DeviceName, MemoryUse } from "../native/addon.js";
import { callNativeSync } from "../native/call.js";
import { loadAddon, loadedAddons } from "../native/load.js";
import { deviceInfo } from "./device.js";

/**
 * How the native engine works in this process: one thread that runs the calls one after the other, and helpers among
 * which every call is spread. No result depends on how many there are. The engine of a GPU, once a policy has asked for
 * it, has a thread and helpers of its own.
 */
export const engine = {
  /**
   * The instructions that the CPU's engine uses here, e.g. `avx512-bf16`; those with `bf16` multiply bfloat16 natively.
   */
  get instructionSet(): string {
    return loadAddon().instructionSet;
  },

  /**
   * What the engine holds, of all policies and decoders together, those on a GPU included: what they hold there is memory
   * of the GPU. V8's figures leave it out.
   */
  get memory(): MemoryUse {
    const uses = loadedAddons().map((addon) => addon.memory());
    const sum = (name: keyof MemoryUse) => uses.reduce((total, use) => total + use[name], 0);
    return { bytes: sum("bytes"), peakBytes: sum("peakBytes"), keptBytes: sum("keptBytes") };
  },

  /**
   * Threads that compute on the processor. Setting it counts from the next operation on. @defaultValue the physical cores
   * that this process may use
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` unless whole and from 1 to 256.
   */
  get threads(): number {
    return loadAddon().threads();
  },
  /** See the getter. */
  set threads(count: number) {
    callNativeSync(() => {
      for (const addon of loadedAddons()) addon.setThreads(count);
    });
  },

  /**
   * What a device is and whether it can be used. A GPU that cannot be, for want of a driver say, is an answer.
   *
   * @throws {@link HindsearchError} `DEVICE_UNAVAILABLE` if the engine for it is not installed, `ADDON_NOT_FOUND` or
   * `ADDON_LOAD_FAILED`.
   */
  device(name: DeviceName): Promise<DeviceInfo> {
    return deviceInfo(name);
  },
};
