import type { MemoryUse } from "../native/addon.js";
import { callNativeSync } from "../native/call.js";
import { loadAddon } from "../native/load.js";

/**
 * How the native engine works in this process: one thread that runs the calls one after the other, and helpers among
 * which every call is spread. No result depends on how many there are.
 */
export const engine = {
  /** The instructions that the engine uses here, e.g. `avx512-bf16`; those with `bf16` multiply bfloat16 natively. */
  get instructionSet(): string {
    return loadAddon().instructionSet;
  },

  /** What the engine holds, of all policies and decoders together. V8's figures leave it out. */
  get memory(): MemoryUse {
    return loadAddon().memory();
  },

  /**
   * Threads that compute. Setting it counts from the next operation on. @defaultValue the physical cores that this
   * process may use
   *
   * @throws {@link HindsearchError} `INVALID_ARGUMENT` unless whole and from 1 to 256.
   */
  get threads(): number {
    return loadAddon().threads();
  },
  /** See the getter. */
  set threads(count: number) {
    callNativeSync(() => loadAddon().setThreads(count));
  },
};
