import { beforeAll, describe, expect, test } from "vitest";
import { loadAddon } from "../../lib/native/load.js";
import type { NativeModel } from "../../lib/native/model.js";
import type { NativeObjective } from "../../lib/native/objective.js";
import { packed, plainTraining, tinyModel } from "../support/tiny-model.js";

const score = (model: NativeModel, sequences: ReturnType<typeof packed>) =>
  model.score(sequences, {
    temperature: 1,
    first: new Int32Array(sequences.offsets.length - 1).fill(1),
    entropy: false,
    microBatchTokens: 4096,
  });

/** Moves an array's memory away, as `postMessage` with a transfer list does. */
function detach(array: Int32Array | Float32Array | Uint8Array): void {
  structuredClone(array.buffer, { transfer: [array.buffer as ArrayBuffer] });
  expect(array.length).toBe(0);
}

let model: NativeModel;

beforeAll(async () => {
  model = await tinyModel(loadAddon());
});

describe("arrays are copied before a call returns", () => {
  test("score", async () => {
    const expected = await score(model, packed(8, 200));
    const sequences = packed(8, 200);
    const pending = score(model, sequences);
    detach(sequences.tokens);
    detach(sequences.offsets);
    expect((await pending).logProbs).toEqual(expected.logProbs);
  });

  test("forwardBackward", async () => {
    const objective = (): NativeObjective & {
      advantages: Float32Array;
      policyMask: Uint8Array;
      oldLogProbs: Float32Array;
    } => ({
      policy: {
        weight: 1,
        clipLow: 0.2,
        clipHigh: 0.2,
        dualClip: 0,
        aggregation: "token-mean",
        fixedLength: 0,
      },
      policyMask: Uint8Array.from({ length: 1600 }, (_, index) => (index % 200 === 0 ? 0 : 1)),
      oldLogProbs: new Float32Array(1600).fill(-4),
      advantages: Float32Array.from({ length: 1600 }, (_, index) => ((index % 7) - 3) / 3),
    });
    const expected = await model.forwardBackward(packed(8, 200), objective(), plainTraining);
    await model.zeroGradients();
    const sequences = packed(8, 200);
    const columns = objective();
    const pending = model.forwardBackward(sequences, columns, plainTraining);
    for (const array of [sequences.tokens, columns.policyMask, columns.oldLogProbs, columns.advantages])
      detach(array);
    const result = await pending;
    await model.zeroGradients();
    expect(result.policyLoss).toBe(expected.policyLoss);
    expect(result.logProbs).toEqual(expected.logProbs);
  });
});

describe("arrays over a resizable buffer", () => {
  // ES2024, which the compiler's library does not know yet.
  type Resizable = ArrayBuffer & { resize(bytes: number): void };
  const Resizable = ArrayBuffer as unknown as new (bytes: number, options: object) => Resizable;

  function resizable(from: Int32Array) {
    const buffer = new Resizable(from.byteLength, { maxByteLength: 2 * from.byteLength });
    const array = new Int32Array(buffer);
    array.set(from);
    return { array, buffer };
  }

  test("may shrink or grow once the call has returned", async () => {
    const { tokens, offsets } = packed(8, 200);
    const expected = await score(model, { tokens, offsets });
    for (const bytes of [0, 2 * tokens.byteLength]) {
      const { array, buffer } = resizable(tokens);
      const pending = score(model, { tokens: array, offsets });
      buffer.resize(bytes);
      expect((await pending).logProbs).toEqual(expected.logProbs);
    }
  });

  test("that lie outside of it by now are refused, and the message names them", async () => {
    const { tokens, offsets } = packed(2, 10);
    const { array, buffer } = resizable(tokens);
    const view = new Int32Array(buffer, 0, tokens.length);
    buffer.resize(8);
    for (const gone of [array, view]) {
      await expect((async () => score(model, { tokens: gone, offsets }))()).rejects.toThrow(/tokens/);
    }
  });
});

describe("arrays that are already gone are refused", () => {
  test("a detached array counts as empty, and the message says so", async () => {
    const sequences = packed(2, 10);
    detach(sequences.tokens);
    await expect((async () => score(model, sequences))()).rejects.toThrow(/tokens/);
  });
});
