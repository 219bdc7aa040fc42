"""One GRPO training step of a Qwen2 decoder in plain PyTorch, as a user would write it.

usage: train.py JSON    the task of bench/work/train.ts, sizes of the model and number of threads
Prints one JSON object: tokens a second (median of the steps, the first left out) and the process's peak of memory.
"""
import json
import math
import resource
import statistics
import sys
import time

import torch
from torch.nn import Embedding, Linear, Module, ModuleList, Parameter
from torch.nn import functional as F

with open("/proc/self/maps") as maps:
    libraries = maps.read()
# The reference BLAS runs on one thread at a fiftieth of the speed: nobody would compare with that.
if "/blas/libblas" in libraries and "openblas" not in libraries:
    sys.exit("PyTorch has no BLAS but the reference one here; install OpenBLAS (Debian: libopenblas0-pthread).")

task = json.loads(sys.argv[1])
hidden, heads, kv_heads, width = task["hidden"], task["heads"], task["kvHeads"], task["headDim"]
vocabulary, batch, length = task["vocabulary"], task["batch"], task["length"]
torch.set_num_threads(task["threads"])
torch.manual_seed(1)


class RmsNorm(Module):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(torch.ones(hidden))

    def forward(self, x):
        x = x.float()
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))


def rotate(x, angles):
    first, second = x.split(width // 2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def attend(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(-1, -2) / math.sqrt(width)).masked_fill(future, -math.inf)
    return scores.softmax(-1) @ v


class Layer(Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = RmsNorm(), RmsNorm()
        self.qkv = Linear(hidden, (heads + 2 * kv_heads) * width)
        self.out = Linear(heads * width, hidden, bias=False)
        self.gate_up = Linear(hidden, 2 * task["intermediate"], bias=False)
        self.down = Linear(task["intermediate"], hidden, bias=False)

    def forward(self, x, angles):
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, heads + 2 * kv_heads, width).transpose(1, 2)
        q, k, v = qkv.split([heads, kv_heads, kv_heads], dim=1)
        q, k = rotate(q, angles).to(v.dtype), rotate(k, angles).to(v.dtype)
        k, v = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (k, v))
        x = x + self.out(attend(q, k, v).transpose(1, 2).reshape(batch, length, heads * width))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Decoder(Module):
    def __init__(self):
        super().__init__()
        self.embedding = Embedding(vocabulary, hidden)
        self.layers = ModuleList(Layer() for _ in range(task["layers"]))
        self.norm = RmsNorm()
        for parameter in self.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.02)
        frequencies = 1e6 ** (-torch.arange(width // 2) * 2 / width)
        self.angles = torch.arange(length)[:, None] * frequencies

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.angles)
        return F.linear(self.norm(x), self.embedding.weight)


policy = Decoder()
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
tokens = torch.randint(vocabulary, (batch, length))
advantages = torch.tensor([1.0 if b % 2 == 0 else -1.0 for b in range(batch)])[:, None]
old = reference = torch.full((batch, length - 1), -math.log(vocabulary))


def step():
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=task["compute"] == "bf16"):
        logits = policy(tokens)[:, :-1]
    log_probs = logits.float().log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
    ratio = (log_probs - old).exp()
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    difference = reference - log_probs
    loss = (0.001 * (difference.exp() - 1 - difference) - surrogate).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


seconds = []
for _ in range(task["steps"] + 1):
    started = time.perf_counter()
    step()
    seconds.append(time.perf_counter() - started)
rate = batch * length / statistics.median(seconds[1:])
print(json.dumps({"rate": rate, "peakMemory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
