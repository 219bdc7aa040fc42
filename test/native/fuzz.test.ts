import { expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import type { Addon } from "../../lib/native/addon.js";
import type { NativeDecoder } from "../../lib/native/decoder.js";
import { loadAddon } from "../../lib/native/load.js";
import type { NativeModel } from "../../lib/native/model.js";
import { packed, plainTraining, tinyConfig, tinyModel } from "../support/tiny-model.js";

const sampling = { temperature: 1, topK: 0, topP: 1, minP: 0 };
const segment = { sampling, stops: ["A"], endTokens: [2], maxNewTokens: 4 };
const key = { seed: 1n, stream: 2n };
const source = { name: "x", path: "/nowhere", offset: 8, bytes: 4, type: "f32", shape: [1] };
const optimizer = {
  learningRate: 1e-3,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0.01,
  maxGradientNorm: 1,
};
const column = () => new Float32Array(40);
const objective = () => ({
  policy: {
    weight: 1,
    clipLow: 0.2,
    clipHigh: 0.2,
    dualClip: 0,
    aggregation: "token-mean",
    fixedLength: 0,
  },
  kl: { weight: 1, estimator: "k3", maxValue: 0 },
  distill: {
    weight: 1,
    clampLow: 0,
    clampHigh: 1,
    detach: true,
    normalizer: "distill-tokens",
    fixed: 1,
  },
  crossEntropy: { weight: 1 },
  policyMask: Uint8Array.from({ length: 40 }, (_, index) => Number(index % 20 > 5)),
  distillMask: Uint8Array.from({ length: 40 }, (_, index) => Number(index % 20 > 10)),
  oldLogProbs: column(),
  referenceLogProbs: column(),
  teacherLogProbs: column(),
  advantages: column(),
  weights: column(),
});
const scoring = () => ({
  temperature: 1,
  first: Int32Array.of(1, 1),
  entropy: true,
  microBatchTokens: 64,
});

type Call = [name: string, receiver: object, name: string, valid: () => unknown[]];

function calls(addon: Addon, model: NativeModel, decoder: NativeDecoder, sequence: () => number): Call[] {
  const bytes = () => ({
    bytes: new Uint8Array(tinyConfig.tokenLimit),
    offsets: Uint32Array.from({ length: tinyConfig.tokenLimit + 1 }, (_, id) => id),
  });
  const sizes = { cacheTokens: 64, maxBatch: 4, prefillTokens: 16 };
  return [
    ["addon", addon, "initialize", () => [{ ...tinyConfig }, "f32", 1n, 0.02]],
    ["addon", addon, "load", () => [{ ...tinyConfig }, "f32", [{ ...source }]]],
    ["addon", addon, "createDecoder", () => [model, { ...sizes }, bytes()]],
    ["addon", addon, "filterProbabilities", () => [Float32Array.of(1, 2, 3), { ...sampling }]],
    ["model", model, "score", () => [packed(2, 20), scoring()]],
    ["model", model, "forwardBackward", () => [packed(2, 20), objective(), { ...plainTraining }]],
    ["model", model, "step", () => [{ ...optimizer }]],
    ["model", model, "weight", () => ["model.norm.weight"]],
    ["model", model, "logits", () => [packed(1, 5)]],
    [
      "model",
      model,
      "save",
      () => ["/nowhere/x", new Uint8Array(8), [{ name: "x", type: "f32", arena: "weights" }]],
    ],
    ["model", model, "loadArena", () => ["weights", [{ ...source }]]],
    ["model", model, "setOptimizerStep", () => [3]],
    ["decoder", decoder, "submit", () => [Int32Array.of(1, 2), { ...segment }, { ...key }, 0]],
    ["decoder", decoder, "fork", () => [sequence(), [{ ...key }], { ...segment }, 0]],
    ["decoder", decoder, "extend", () => [sequence(), Int32Array.of(3), { ...segment }]],
    ["decoder", decoder, "cancel", () => [sequence()]],
  ];
}

// Nothing between "tiny" and "absurd": a size that might just fit would test the machine.
const strange: ((random: Random) => unknown)[] = [
  () => undefined,
  () => null,
  () => Number.NaN,
  () => Number.NEGATIVE_INFINITY,
  () => Number.POSITIVE_INFINITY,
  () => -0,
  () => -1,
  () => 1.5,
  () => 2 ** 31,
  () => 2 ** 53,
  () => -(2n ** 64n),
  () => 2n ** 64n,
  () => "",
  () => "f64",
  () => "a\0b",
  () => "\ud800",
  () => true,
  () => Symbol("s"),
  () => ({}),
  () => [],
  () => [[]],
  () => [null],
  () => () => 1,
  () => new Date(0),
  () => new Int32Array(0),
  () => new Int32Array([2 ** 31 - 1, -(2 ** 31)]),
  () => new Float32Array([Number.NaN]),
  () => new Float64Array(40),
  () => new Uint8Array(7),
  () => new BigInt64Array(2),
  () => new DataView(new ArrayBuffer(8)),
  () => new ArrayBuffer(8),
  () => new Int32Array(new SharedArrayBuffer(8)),
  () => {
    const array = new Int32Array(40);
    structuredClone(array.buffer, { transfer: [array.buffer] });
    return array;
  },
  (random) => Int32Array.from({ length: random.integer(50) }, () => random.integer(2 ** 31)),
  () => loadAddon().createCancellation(),
  () => new Proxy([], {}),
  () => Object.create(null),
];

/** Replaces one value, anywhere in the arguments. */
function damage(value: unknown, random: Random): unknown {
  const here = strange[random.integer(strange.length)] as (typeof strange)[0];
  const isPlain =
    Array.isArray(value) || (value !== null && Object.getPrototypeOf(value) === Object.prototype);
  if (!isPlain || random.integer(4) === 0) return here(random);
  const keys = Object.keys(value as object);
  if (keys.length === 0) return here(random);
  const chosen = keys[random.integer(keys.length)] as string;
  const inner = damage((value as Record<string, unknown>)[chosen], random);
  if (!Array.isArray(value)) return { ...(value as object), [chosen]: inner };
  return value.map((element, index) => (String(index) === chosen ? inner : element));
}

const codes = new Set([
  "INVALID_ARGUMENT",
  "INVALID_CHECKPOINT",
  "CONTEXT_FULL",
  "IO",
  "OUT_OF_MEMORY",
  "NON_FINITE",
  "UNSUPPORTED_MODEL",
]);

test("hundreds of damaged calls: an error with a code or a result, and the engine works on", async () => {
  const random = new Random("addon calls");
  const addon = loadAddon();
  const model = await tinyModel(addon);
  const decoder = await addon.createDecoder(
    model,
    { cacheTokens: 256, maxBatch: 4, prefillTokens: 16 },
    { bytes: new Uint8Array(), offsets: new Uint32Array(tinyConfig.tokenLimit + 1) },
  );
  const live: number[] = [];
  const sequence = () => (live.length === 0 ? 1 : (live[random.integer(live.length)] as number));
  const outcomes = { refused: 0, done: 0 };
  for (let round = 0; round < 1500; round++) {
    const table = calls(addon, model, decoder, sequence);
    const [, receiver, name, valid] = table[random.integer(table.length)] as Call;
    const undamaged = valid();
    const input = random.integer(5) === 0 ? undamaged : (damage(undamaged, random) as unknown[]);
    const args = Array.isArray(input) ? input : [input];
    try {
      const result = await Reflect.apply(Reflect.get(receiver, name), receiver, args);
      outcomes.done++;
      if (name === "submit") live.push(result as number);
    } catch (error) {
      outcomes.refused++;
      const { code } = error as { code?: string };
      expect(error instanceof TypeError || codes.has(code ?? ""), `${name}: ${error}`).toBe(true);
      expect(code, `${name}: ${error}`).not.toBe("INTERNAL");
    }
    if (live.length > 8) decoder.release(live.shift() as number);
    if (round % 50 === 0) await decoder.next();
  }
  // Most calls must have got as far as being refused for the value that was damaged, and some through.
  expect(outcomes.refused).toBeGreaterThan(800);
  expect(outcomes.done).toBeGreaterThan(150);

  const fresh = await tinyModel(addon);
  const { logProbs } = await fresh.score(packed(2, 20), scoring());
  expect(logProbs.every(Number.isFinite)).toBe(true);
  decoder.dispose();
});

test("a method called on an object of another kind is refused", async () => {
  const addon = loadAddon();
  const model = await tinyModel(addon);
  const prototype = Object.getPrototypeOf(model);
  const others = [
    {},
    null,
    1,
    "x",
    addon,
    addon.createCancellation(),
    Object.create(model),
    new Proxy(model, {}),
  ];
  for (const name of Object.getOwnPropertyNames(prototype)) {
    const { value, get } = Object.getOwnPropertyDescriptor(prototype, name) as PropertyDescriptor;
    const method = value ?? get;
    if (name === "constructor") {
      expect(() => Reflect.construct(method, [])).toThrow(TypeError);
      expect(() => Reflect.apply(method, {}, [])).toThrow(TypeError);
      continue;
    }
    for (const other of others) {
      const call = async () => Reflect.apply(method, other, []);
      await expect(call(), name).rejects.toThrow(/Illegal invocation|must be a NativeModel/);
    }
  }
  expect(model.version).toBe(1);
});

test("a getter among the arguments may do anything", async () => {
  const addon = loadAddon();
  const model = await tinyModel(addon);
  // It disposes of the very model that is being called.
  const options = {
    ...scoring(),
    get temperature() {
      model.dispose();
      return 1;
    },
  };
  await expect((async () => model.score(packed(2, 20), options))()).rejects.toMatchObject({
    code: "DISPOSED",
  });

  // It takes away an array that has been read already, and one that has not.
  const other = await tinyModel(addon);
  const sequences = packed(2, 20);
  const thief = {
    tokens: sequences.tokens,
    get offsets() {
      structuredClone(sequences.tokens.buffer, { transfer: [sequences.tokens.buffer as ArrayBuffer] });
      return sequences.offsets;
    },
  };
  expect((await other.score(thief, scoring())).logProbs).toHaveLength(40);
  const array = [{ ...source }, { ...source }];
  Object.defineProperty(array, 0, {
    get: () => {
      array.length = 1;
      throw new RangeError("mine");
    },
  });
  await expect((async () => other.loadArena("weights", array as never))()).rejects.toThrow(
    new RangeError("mine"),
  );
});
