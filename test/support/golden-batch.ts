import { type GoldenArrays, readGolden } from "./golden.js";

/** A sequence of a golden batch; every column has one entry per token and is 0 on the prompt. */
export interface GoldenSequence {
  tokens: number[];
  response: number[];
  distill: number[];
  advantage: number[];
  advantageNoStd: number[];
  old: number[];
  oldAtTemperature: number[];
  rollout: number[];
  reference: number[];
  teacher: number[];
  /** Of the current weights. */
  student: number[];
}

/** A golden batch and what its losses refer to. */
export interface GoldenBatch {
  sequences: GoldenSequence[];
  /** Width of the padded responses. */
  paddedWidth: number;
  offPolicyThreshold: number;
}

export function readGoldenBatch(model: string, arrays: GoldenArrays): GoldenBatch {
  const json = readGolden("golden", "grads", model, "batch.json");
  // biome-ignore lint/suspicious/noExplicitAny: golden JSON
  const sequences = json.sequences.map((sequence: any): GoldenSequence => {
    const { token_ids: tokens, prompt_len: prompt, teacher } = sequence;
    const responseLength = tokens.length - prompt;
    const column = (response: ArrayLike<number>) => [...new Array(prompt).fill(0), ...Array.from(response)];
    const constant = (value: number) => column(new Array(responseLength).fill(value));
    return {
      tokens,
      response: column(sequence.response_mask),
      distill: column(sequence.distill_mask),
      advantage: constant(sequence.advantage),
      advantageNoStd: constant(sequence.advantage_nostd),
      old: column(sequence.old_logp),
      oldAtTemperature: column(sequence.old_logp_temperature),
      rollout: column(sequence.rollout_logp),
      reference: column(sequence.ref_logp),
      teacher: teacher ? column(arrays.get(teacher.teacher_logp)) : constant(0),
      student: column(arrays.get(sequence.student_logp)),
    };
  });
  return {
    sequences,
    paddedWidth: json.padded_response_width_T,
    offPolicyThreshold: json.hyper_parameters.opsm,
  };
}
