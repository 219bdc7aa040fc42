import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type LearningRateSchedule, learningRateAt, weightFactorAt } from "../../lib/training/schedule.js";
import { describeShared, sharedPath } from "../support/shared.js";

describe("learningRateAt", () => {
  test("stays at the floor behind the end", () => {
    for (const kind of ["linear", "cosine"] as const) {
      const schedule = { kind, learningRate: 2, totalSteps: 10, minimumRatio: 0.1 };
      for (const step of [10, 11, 25, 1000]) expect(learningRateAt(schedule, step)).toBeCloseTo(0.2, 15);
    }
  });

  test("the first step of a warm-up has rate 0, the step behind it the full rate", () => {
    const schedule = { kind: "constant", learningRate: 1e-6, warmupSteps: 4 } as const;
    expect([0, 1, 2, 3, 4].map((step) => learningRateAt(schedule, step) / 1e-6)).toEqual([
      0, 0.25, 0.5, 0.75, 1,
    ]);
  });

  test.each([
    [{ kind: "cosine", learningRate: 1 }, "totalSteps"],
    [{ kind: "foo", learningRate: 1, totalSteps: 4 } as never, "kind is foo"],
    [{ kind: "constant", learningRate: -1 }, "learningRate"],
    [{ kind: "constant", learningRate: Number.NaN }, "learningRate"],
    [{ kind: "constant", learningRate: 1, warmupSteps: 0.5 }, "warmupSteps"],
    [{ kind: "linear", learningRate: 1, totalSteps: 4, minimumRatio: 2 }, "minimumRatio"],
  ] as [LearningRateSchedule, string][])("refuses %o", (schedule, name) => {
    expect(() => learningRateAt(schedule, 0)).toThrow(name);
  });
});

describe("weightFactorAt", () => {
  test.each([
    [{ kind: "constant" }, [1, 1, 1, 1, 1, 1]],
    [{ kind: "delayed", steps: 2 }, [0, 0, 1, 1, 1, 1]],
    [{ kind: "warmup", steps: 4 }, [0, 0.25, 0.5, 0.75, 1, 1]],
    [{ kind: "linear-decay", steps: 4 }, [1, 0.75, 0.5, 0.25, 0, 0]],
  ] as const)("%o", (schedule, expected) => {
    expect(expected.map((_, step) => weightFactorAt(schedule, step))).toEqual(expected);
  });

  test("refuses a length that is none", () => {
    expect(() => weightFactorAt({ kind: "warmup", steps: 0 }, 0)).toThrow("steps is 0");
  });
});

describeShared("schedules of other systems", () => {
  const golden = JSON.parse(readFileSync(sharedPath("golden", "scalars", "lr_schedules.json"), "utf8"));
  interface Case {
    name: string;
    params: { warmup?: number; total?: number; min_lr_ratio?: number; min_lr_rate?: number };
    lr_of_optimizer_step: number[];
  }
  const kinds: Record<string, LearningRateSchedule["kind"]> = {
    constant: "constant",
    constant_with_warmup: "constant",
    verl_constant: "constant",
    linear: "linear",
    cosine: "cosine",
    cosine_with_min_lr: "cosine",
    verl_cosine: "cosine",
  };

  test("every convention is either ours or named as not offered", () => {
    const others = (golden.cases as Case[]).map(({ name }) => name).filter((name) => !(name in kinds));
    expect([...new Set(others)].sort()).toEqual([
      "cosine_warmup_with_min_lr", // starts at rate / warmup
      "cosine_with_restarts",
      "inverse_sqrt",
      "polynomial",
      "torch.CosineAnnealingLR",
      "torch.LinearLR", // starts at a share of the rate
      "torch.SequentialLR(LinearLR, CosineAnnealingLR)",
      "verl_cosine_one_indexed", // starts at rate / warmup
      "wsd",
    ]);
  });

  const ours = (golden.cases as Case[]).filter(({ name }) => name in kinds);
  test.each(ours)("$name $params", ({ name, params, lr_of_optimizer_step }) => {
    const { warmup = 0, total } = params;
    const schedule: LearningRateSchedule = {
      kind: kinds[name] as LearningRateSchedule["kind"],
      learningRate: golden.base_lr,
      warmupSteps: warmup,
      minimumRatio: params.min_lr_ratio ?? params.min_lr_rate ?? 0,
      ...(total === undefined ? {} : { totalSteps: total }),
    };
    lr_of_optimizer_step.forEach((expected, step) => {
      const floor = golden.base_lr * (schedule.minimumRatio as number);
      // A cosine of the others rises again behind its end; ours stays down.
      const wanted = total !== undefined && step > total ? floor : expected;
      expect(Math.abs(learningRateAt(schedule, step) - wanted), `step ${step}`).toBeLessThanOrEqual(
        1e-12 * golden.base_lr,
      );
    });
  });
});
