#!/usr/bin/env python3
"""The work of bench/native/gpu.cc in PyTorch, as a user would write it: transformers' Qwen2 with random weights,
`generate` with a static cache, and forward + backward + AdamW with SDPA under bf16 autocast over f32 weights. One JSON
object a line, with the fields of gpu_bench."""

import argparse
import gc
import json
import time

import torch
import torch.nn.functional as F

BEGUN = time.perf_counter()
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
def decode(name, batches, context, new, begin_within):
    model = build(name, torch.bfloat16).eval()
    for batch in batches:
        torch.cuda.reset_peak_memory_stats()
        try:
            if time.perf_counter() - BEGUN > begin_within:
                raise TimeoutError(f"not begun within {begin_within} s")
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

            # The longest first: the static cache keeps that length, and another would be compiled for while timed.
            generate(4 + new)
            # The difference of two lengths leaves out the prompt and what is recorded anew for every call's cache.
            prompt, short, long = (seconds(lambda: generate(count)) for count in (1, 4, 4 + new))
            row = {"tokensPerSecond": batch * new / (long - short), "promptTokensPerSecond": batch * context / prompt}
        except (torch.cuda.OutOfMemoryError, TimeoutError) as error:
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
        torch.cuda.reset_peak_memory_stats()
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
    parser.add_argument("--begin-within", type=float, default=float("inf"), help="seconds; no batch is decoded later")
    options = parser.parse_args()
    # What compiles nothing first: compiling takes most of the time there is.
    if options.train:
        shapes = [tuple(int(n) for n in shape.split("x")) for shape in options.train.split(",")]
        train(options.model, shapes, options.steps)
        gc.collect()
        torch.cuda.empty_cache()
    if options.decode:
        batches = [int(b) for b in options.decode.split(",")]
        decode(options.model, batches, options.context, options.new, options.begin_within)


if __name__ == "__main__":
    main()
