import { expect, test } from "vitest";
import { bf16Exceptions } from "../support/bf16-exceptions.js";
import { readGolden } from "../support/golden.js";
import { goldenLosses } from "../support/golden-losses.js";
import { describeShared } from "../support/shared.js";

const { exceptions, reasons } = bf16Exceptions;

test("every exception has a place of its own and a reason", () => {
  const places = exceptions.map(({ model, case: id, figure }) => `${model} ${id} ${figure}`);
  expect(new Set(places).size).toBe(places.length);
  expect(new Set(exceptions.map(({ reason }) => reason))).toEqual(new Set(Object.keys(reasons)));
});

test("nothing is an exception that PyTorch's own bf16 would not be, in many an equivalent form of the model", () => {
  for (const { pytorchBeyond } of exceptions) expect(pytorchBeyond).toBeGreaterThan(0.25);
});

describeShared("golden cases with an exception", () => {
  test.for(exceptions)("$model $case: $figure", ({ model, case: id, figure }) => {
    if (figure === "log-probs" || figure === "entropies") {
      const { sequences } = readGolden("golden", "models", model, "cases.json");
      expect(sequences.map(({ name }: { name: string }) => name)).toContain(id);
    } else {
      expect(Object.keys(goldenLosses)).toContain(id);
      const { parameters } = readGolden("golden", "grads", model, "expected.json");
      expect(["loss", ...Object.keys(parameters)]).toContain(figure);
    }
  });
});
