#!/usr/bin/env python3
"""The work of bench/native/gpu.cc in PyTorch, as a user would write it: transformers' Qwen2 with random weights,
`generate` with a static cache, and forward + backward + AdamW with SDPA under bf16 autocast over f32 weights. One JSON
object a line, with the fields of gpu_bench."""

import argparse
import json
import time

import torch
import torch.nn.functional as F

SIZES = {
    "0.5b": dict(hidden_size=896, num_hidden_layers=24, num_attention_heads=14, intermediate_size=4864),
    "3b": dict(hidden_size=2048, num_hidden_layers=36, num_attention_heads=16, intermediate_size=11008),
}


def build(name, dtype):
    from transformers import AutoModelForCausalLM, Qwen2Config

    config = Qwen2Config(
        num_key_value_heads=2,
        vocab_size=151936,
        max_position_embeddings=32768,
        rope_theta=1e6,
        tie_word_embeddings=True,
        **SIZES[name],
    )
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=dtype)
    return model.to("cuda")


def seconds(body):
    torch.cuda.synchronize()
    start = time.perf_counter()
    body()
    torch.cuda.synchronize()
    return time.perf_counter() - start


@torch.no_grad()
def decode(name, batches, context, new):
    model = build(name, torch.bfloat16).eval()
    for batch in batches:
        try:
            ids = torch.randint(0, 151936, (batch, context), device="cuda")

            def generate(count):
                model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=count,
                    min_new_tokens=count,
                    do_sample=True,
                    top_k=0,
                    pad_token_id=0,
                    cache_implementation="static",
                )

            generate(2)
            # The difference of two lengths leaves the prompt out.
            short, long = seconds(lambda: generate(2)), seconds(lambda: generate(2 + new))
            row = {"tokensPerSecond": batch * new / (long - short), "promptTokensPerSecond": batch * context / short}
        except torch.cuda.OutOfMemoryError as error:
            row = {"error": str(error).splitlines()[0]}
        print(
            json.dumps(
                {"work": "decode", "model": name, "batch": batch, "context": context, "new": new, **row,
                 "peakBytes": torch.cuda.max_memory_allocated()}
            ),
            flush=True,
        )
        torch.cuda.empty_cache()


def train(name, shapes, steps, micro_batch_tokens=4096):
    model = build(name, torch.float32).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.01, fused=True)
    for batch, length in shapes:
        ids = torch.randint(0, 151936, (batch, length), device="cuda")
        rows = max(1, micro_batch_tokens // length)

        def step():
            for part in ids.split(rows):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    logits = model(part, use_cache=False).logits
                loss = F.cross_entropy(logits[:, :-1].float().flatten(0, 1), part[:, 1:].flatten(), reduction="sum")
                (loss / (batch * (length - 1))).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        try:
            step()
            spent = seconds(lambda: [step() for _ in range(steps)])
            row = {"tokensPerSecond": batch * length * steps / spent}
        except torch.cuda.OutOfMemoryError as error:
            row = {"error": str(error).splitlines()[0]}
        print(
            json.dumps(
                {"work": "train", "model": name, "batch": batch, "length": length, **row,
                 "peakBytes": torch.cuda.max_memory_allocated()}
            ),
            flush=True,
        )
        torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=sorted(SIZES))
    parser.add_argument("--decode", default="")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--train", default="")
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    if options.decode:
        decode(options.model, [int(b) for b in options.decode.split(",")], options.context, options.new)
        torch.cuda.empty_cache()
    if options.train:
        shapes = [tuple(int(n) for n in shape.split("x")) for shape in options.train.split(",")]
        train(options.model, shapes, options.steps)


if __name__ == "__main__":
    main()
