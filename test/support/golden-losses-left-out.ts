const because = (reason: string, ids: readonly string[]): Record<string, string> =>
  Object.fromEntries(ids.map((id) => [id, reason]));

/** Why the other golden losses cannot be expressed; each is in exactly one of the two tables. */
export const goldenLossesLeftOut: Record<string, string> = {
  ...because("another KL estimator than k1, k2, k3", [
    "grpo/verl/kl-abs",
    "grpo/verl/kl-k1+",
    "grpo/verl/kl-k3+",
    "grpo/trl/kl-bias-corrected",
  ]),
  ...because("another policy loss than the clipped ratio", [
    ...["grpo/trl/two-sided-delta", "gspo/verl", "gspo/trl", "gspo/openrlhf", "cispo/verl", "cispo/trl"],
    ...["sapo/verl", "sapo/trl", "gmpo/verl", "vespo/trl"],
  ]),
  ...because("needs the whole distribution of the teacher, not the log-prob of one token", [
    ...["distill/reverse_kl", "distill/forward_kl", "distill/jsd_0.1", "distill/jsd_0.5", "distill/jsd_0.9"],
    ...["distill/reverse_kl_temp", "distill/jsd_temp", "distill/forward_kl_temp"],
    ...["distill/forward_kl_temp_hinton", "distill/reverse_kl_sum", "distill/reverse_kl_num_items"],
    ...["distill/sdft/reverse_kl", "distill/sdft/forward_kl", "distill/sdft/topk_renorm_reverse"],
    ...["distill/sdft/topk_tail_reverse", "distill/sdft/topk_tail_forward", "distill/sdft/topk_renorm_jsd"],
    ...["distill/sdft/reverse_kl_isclip", "distill/iw/topk_tail_forward", "distill/iw/topk_renorm_forward"],
    ...["distill/iw/topk_tail_jsd", "distill/iw/topk_renorm_jsd_temp"],
    ...["distill/openclaw/topk_tail_reverse", "distill/verl/forward_kl_topk"],
    ...["combined/grpo_plus_reverse_kl", "combined/grpo_plus_forward_kl", "combined/grpo_plus_jsd"],
  ]),
  "grpo/verl/entropy-bonus": "an entropy bonus is not offered",
  "distill/minillm_advantage": "its loss is that of grpo/trl/dapo; the advantage is the caller's",
};
