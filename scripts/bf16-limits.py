#!/usr/bin/env python3
"""How far PyTorch's own bf16 is from the golden numbers where test/golden/bf16-exceptions.json lists an exception.

The golden limits are three times the error that one bf16 run of the peers had. This runs the same model in PyTorch, in
bf16 as transformers does (norms, rotary angles and softmax in float32), as it is and in `--rewrites` equivalent forms:
what a norm, a value or a gate's other half is multiplied by, the next matrix is divided by, by factors of 2^-0.5 to
2^0.5. In exact arithmetic each gives the golden numbers; only bf16 rounds them elsewhere. Printed for every exception:
the limit, the error as published, here as it is, and of the rewrites (median, and how many exceed the limit).

usage: bf16-limits.py <folder of golden numbers> [--rewrites 200]     (needs numpy and PyTorch; tried with 1.13)"""

import argparse
import json
import struct
from pathlib import Path

import numpy
import torch

BF16, EXACT = torch.bfloat16, torch.float64
EMBEDDING = "model.embed_tokens.weight"


def read_weights(folder):
    weights = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        for name, entry in json.loads(data[8 : 8 + size]).items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            stored = data[8 + size + begin : 8 + size + end]
            if entry["dtype"] == "BF16":
                numbers = (numpy.frombuffer(stored, "<u2").astype("<u4") << 16).view("<f4")
            else:
                numbers = numpy.frombuffer(stored, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
            weights[name] = torch.tensor(numbers.astype("f8")).reshape(entry["shape"])
    return weights


class Decoder:
    """Qwen2, Qwen3 or Llama-3 in one type; `weights` as in the checkpoint."""

    def __init__(self, config, weights, dtype, requires_grad=False):
        self.weights = {k: w.to(dtype, copy=True).requires_grad_(requires_grad) for k, w in weights.items()}
        self.dtype, self.wide = dtype, EXACT if dtype == EXACT else torch.float32
        self.layers, self.eps = config["num_hidden_layers"], config["rms_norm_eps"]
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.head = config.get("head_dim") or config["hidden_size"] // self.heads
        rope = config.get("rope_parameters") or {**(config.get("rope_scaling") or {}), "rope_theta": config["rope_theta"]}
        self.frequencies = 1 / rope["rope_theta"] ** (torch.arange(0, self.head, 2).float() / self.head)
        if rope.get("rope_type") == "llama3":
            turns = rope["original_max_position_embeddings"] * self.frequencies / (2 * torch.pi)
            low, high = rope["low_freq_factor"], rope["high_freq_factor"]
            share = ((turns - low) / (high - low)).clamp(0, 1)
            self.frequencies = self.frequencies * (share + (1 - share) / rope["factor"])

    def norm(self, x, name):
        x = x.to(self.wide)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return x.to(self.dtype) * self.weights[name]

    def linear(self, x, name):
        y = x @ self.weights[name + ".weight"].t()
        return y + self.weights[name + ".bias"] if name + ".bias" in self.weights else y

    def attention(self, x, name):
        length = len(x)
        q, k, v = (self.linear(x, f"{name}.{p}_proj").view(length, -1, self.head) for p in "qkv")
        if f"{name}.q_norm.weight" in self.weights:
            q, k = self.norm(q, f"{name}.q_norm.weight"), self.norm(k, f"{name}.k_norm.weight")
        angles = torch.arange(length).float()[:, None, None] * self.frequencies.repeat(2)
        cos, sin = (f(angles.to(self.wide)).to(self.dtype) for f in (torch.cos, torch.sin))
        half = self.head // 2
        q, k = (z * cos + torch.cat((-z[..., half:], z[..., :half]), -1) * sin for z in (q, k))
        group = self.heads // self.kv_heads
        q, k, v = q.transpose(0, 1), *(z.repeat_interleave(group, 1).transpose(0, 1) for z in (k, v))
        scores = q @ k.transpose(1, 2) * self.head**-0.5
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
        mixed = torch.softmax(scores.to(self.wide), -1).to(self.dtype) @ v
        return self.linear(mixed.transpose(0, 1).reshape(length, -1), f"{name}.o_proj")

    def log_probs(self, tokens):
        """[T, V]: row t is the distribution of token t + 1."""
        x = self.weights[EMBEDDING][tokens]
        for layer in range(self.layers):
            at = f"model.layers.{layer}"
            x = x + self.attention(self.norm(x, f"{at}.input_layernorm.weight"), f"{at}.self_attn")
            h = self.norm(x, f"{at}.post_attention_layernorm.weight")
            gate = torch.nn.functional.silu(self.linear(h, f"{at}.mlp.gate_proj"))
            x = x + self.linear(gate * self.linear(h, f"{at}.mlp.up_proj"), f"{at}.mlp.down_proj")
        head = self.weights.get("lm_head.weight", self.weights[EMBEDDING])
        logits = self.norm(x, "model.norm.weight") @ head.t()
        return torch.log_softmax(logits.to(self.wide), -1)


def rewritten(config, weights, random):
    """An equivalent model whose numbers bf16 rounds elsewhere."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    new = dict(weights)

    def factors(count):
        return torch.exp2(torch.rand(count, generator=random, dtype=EXACT) - 0.5)

    def multiply(name, factor):
        for part in (".weight", ".bias"):
            if name + part in new:
                new[name + part] = new[name + part] * (factor if new[name + part].dim() == 1 else factor[:, None])

    def divide(name, factor):
        new[name + ".weight"] = new[name + ".weight"] / factor

    new.setdefault("lm_head.weight", weights[EMBEDDING])
    norms = [("model.norm", ["lm_head"])]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        norms.append((f"{at}.input_layernorm", [f"{at}.self_attn.{p}_proj" for p in "qkv"]))
        norms.append((f"{at}.post_attention_layernorm", [f"{at}.mlp.gate_proj", f"{at}.mlp.up_proj"]))
        factor = factors(config["intermediate_size"])
        multiply(f"{at}.mlp.up_proj", factor)
        divide(f"{at}.mlp.down_proj", factor)
        factor = factors(len(weights[f"{at}.self_attn.v_proj.weight"]))
        multiply(f"{at}.self_attn.v_proj", factor)
        shared = factor.view(kv_heads, -1).repeat_interleave(heads // kv_heads, 0)
        divide(f"{at}.self_attn.o_proj", shared.reshape(-1))
    for norm, readers in norms:
        factor = factors(config["hidden_size"])
        multiply(norm, factor)
        for reader in readers:
            divide(reader, factor)
    return new


# --- The losses, as the manifest of the golden numbers defines them. ---


def clipped(s, advantage, dual=torch.inf):
    ratio = (s["new"] - s["old_logp"]).exp()
    loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.28))
    return torch.where(advantage < 0, torch.minimum(loss, -advantage * dual), loss)


def k3(s, other):
    gap = (s[other] - s["new"]).clamp(-20, 20)
    return (gap.exp() - gap - 1).clamp(-10, 10)


def masked_sum(batch, term, mask="response_mask"):
    return sum((term(s) * s[mask]).sum() for s in batch)


def token_mean(batch, term, mask="response_mask"):
    return masked_sum(batch, term, mask) / sum(s[mask].sum() for s in batch)


def sequence_means(batch, term):
    return [masked_sum([s], term) / s["response_mask"].sum() for s in batch if s["response_mask"].any()]


def truncated(s):
    return (s["old_logp"] - s["rollout_logp"]).exp().clamp(max=2)


def corrected(s):
    return clipped(s, s["advantage"], 3) * truncated(s)


def with_kl(s):
    return clipped(s, s["advantage"], 3) + 0.1 * k3(s, "ref_logp")


def token_opd(s):
    return clipped(s, (s["teacher_logp"] - s["old_logp"]) * s["distill_mask"]) + 0.05 * k3(s, "ref_logp")


def importance(s):
    return -0.7 * (s["teacher_logp"] - s["rollout_logp"]) * (s["new"] - s["rollout_logp"]).exp()


LOSSES = {
    "distill/verl/k3_direct": lambda b: token_mean(b, lambda s: k3(s, "teacher_logp"), "distill_mask"),
    "distill/openclaw/token_opd": lambda b: sum(sequence_means(b, token_opd)),
    "distill/tinker_importance_sampling": lambda b: masked_sum(b, importance, "distill_mask"),
    "tis/verl/token": lambda b: token_mean(b, corrected),
    "tis/verl/token-batchnorm": lambda b: token_mean(b, corrected) / token_mean(b, truncated),
    "grpo/verl/kl-k3": lambda b: token_mean(b, with_kl),
    "grpo/verl/kl-k3-seq-mean-token-mean": lambda b: torch.stack(sequence_means(b, with_kl)).mean(),
}


class Golden:
    """The golden numbers of one model."""

    def __init__(self, folder, model):
        self.config = json.loads((folder / "models" / model / "config.json").read_text())
        self.weights = read_weights(folder / "models" / model)
        cases = json.loads((folder / "models" / model / "cases.json").read_text())
        self.sequences = {s["name"]: s for s in cases["sequences"]}
        self.batch = json.loads((folder / "grads" / model / "batch.json").read_text())["sequences"]
        expected = json.loads((folder / "grads" / model / "expected.json").read_text())
        self.losses = {case["id"]: case for case in expected["cases"]}
        self.arrays, self.numbers = expected["arrays"], numpy.fromfile(folder / "grads" / model / expected["bin"], "<f4")

    def array(self, name, dtype):
        shape, offset = self.arrays[name]["shape"], self.arrays[name]["offset"] // 4
        return torch.tensor(self.numbers[offset : offset + int(numpy.prod(shape))].copy()).to(dtype)

    def loss(self, name, decoder):
        batch = []
        for s in self.batch:
            tokens, first = torch.tensor(s["token_ids"]), s["prompt_len"]
            rows = decoder.log_probs(tokens)[first - 1 : -1]
            columns = {"new": rows[torch.arange(len(rows)), tokens[first:]]}
            for key in ("old_logp", "ref_logp", "rollout_logp", "response_mask", "distill_mask", "advantage"):
                columns[key] = torch.tensor(s[key], dtype=decoder.wide).expand(len(rows))
            teacher = s.get("teacher", {}).get("teacher_logp")
            columns["teacher_logp"] = self.array(teacher, decoder.wide) if teacher else torch.zeros(len(rows))
            batch.append(columns)
        return LOSSES[name](batch)

    def probe(self, case, figure):
        """(limit, published error, error(weights) of that figure in bf16)."""
        if figure in ("log-probs", "entropies"):
            tokens = torch.tensor(self.sequences[case]["token_ids"])

            def value(weights, dtype):
                rows = Decoder(self.config, weights, dtype).log_probs(tokens).to(EXACT)
                if figure == "entropies":
                    return -(rows.exp() * rows).sum(-1)
                return rows[torch.arange(len(tokens) - 1), tokens[1:]]

            exact = value(self.weights, EXACT)
            observed = self.sequences[case]["observed_error"]["peer_bf16_logprob_max_abs"]
            return 3 * observed, observed, lambda w: (value(w, BF16) - exact).abs().max().item()

        observed, published = self.losses[case]["observed_peer_bf16"], self.losses[case]
        if figure == "loss":
            error = observed["loss_abs_err"]
            return (
                3 * error + 1e-3,
                error,
                lambda w: abs(self.loss(case, Decoder(self.config, w, BF16)).item() - published["loss"]),
            )

        def gradient(weights, dtype):
            with torch.enable_grad():
                decoder = Decoder(self.config, weights, dtype, requires_grad=True)
                self.loss(case, decoder).backward()
            return decoder.weights[figure].grad.to(EXACT)

        exact = gradient(self.weights, EXACT)
        scale = max(exact.norm().item(), 1e-3 * published["grad_global_norm"])
        error = observed["grad_worst_tensor_rel_err"]
        return max(0.15, 2.5 * error), error, lambda w: (gradient(w, BF16) - exact).norm().item() / scale


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("golden", type=Path)
    parser.add_argument("--rewrites", type=int, default=200)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    listed = json.loads((Path(__file__).parents[1] / "test/golden/bf16-exceptions.json").read_text())["exceptions"]
    models = {model: Golden(options.golden, model) for model in {each["model"] for each in listed}}
    print("limit, published, here, median of rewrites, share of rewrites beyond the limit")
    for each in listed:
        golden = models[each["model"]]
        limit, published, error = golden.probe(each["case"], each["figure"])
        random = torch.Generator().manual_seed(1)
        errors = [error(rewritten(golden.config, golden.weights, random)) for _ in range(options.rewrites)]
        beyond = sum(e > limit for e in errors) / len(errors)
        print(
            f"{limit:.5f} {published:.5f} {error(golden.weights):.5f} {numpy.median(errors):.5f} {beyond:.2f}  "
            f"{each['model']} {each['case']} {each['figure']}",
            flush=True,
        )


main()
