#!/usr/bin/env python3
"""Joins the results of a GPU check: gpu_bench's and torch_gpu.py's lines, and the steps' verdicts. Prints a table and
writes one JSON file.

usage: gpu-table.py <folder of the check> <result.json>"""

import json
import sys
from pathlib import Path

# Bytes and products of the shapes, for limits: layers, heads, key/value heads, head size, matrix parameters.
SHAPES = {"0.5b": (24, 14, 2, 64, 494e6), "3b": (36, 16, 2, 128, 3086e6)}


def lines(path):
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("{"):
            found.append(json.loads(line))
    return found


def decode_limit(row, peak, bandwidth):
    """Tokens a second of a step that reads weights and keys once, or multiplies at the peak."""
    layers, heads, kv_heads, width, parameters = SHAPES[row["model"]]
    batch, context = row["batch"], row["context"] + row["new"] / 2
    kv_bytes = 2 * layers * kv_heads * width * 2
    weights = max(2 * parameters / bandwidth, 2 * parameters * batch / peak)
    attention = max(batch * context * kv_bytes / bandwidth, batch * context * 4 * layers * heads * width / peak)
    return batch / (weights + attention)


def key(row):
    return (row["work"], row["model"], row.get("batch"), row.get("context"), row.get("length"))


def main():
    folder, result = Path(sys.argv[1]), Path(sys.argv[2])
    ours, torch = lines(folder / "ours.jsonl"), {key(row): row for row in lines(folder / "torch.jsonl")}
    machine = (lines(folder / "machine.jsonl") or [{}])[0]
    steps = lines(folder / "steps.jsonl")
    peak, bandwidth = machine.get("flops"), machine.get("bytesPerSecond")
    table = []
    for row in ours:
        if row["work"] == "device":
            continue
        peer = torch.get(key(row), {})
        entry = dict(row, torch=peer.get("tokensPerSecond"), torchError=peer.get("error"),
                     torchPeakBytes=peer.get("peakBytes"))
        entry["ratio"] = row["tokensPerSecond"] / entry["torch"] if entry["torch"] else None
        if row["work"] == "decode":
            prompt = peer.get("promptTokensPerSecond")
            entry["promptRatio"] = row["promptTokensPerSecond"] / prompt if prompt else None
            if peak and bandwidth and row["model"] in SHAPES:
                entry["ofLimit"] = row["tokensPerSecond"] / decode_limit(row, peak, bandwidth)
        elif peak:
            entry["mfu"] = row["teraflopsPerSecond"] * 1e12 / peak
        table.append(entry)
    result.write_text(json.dumps({"machine": machine, "steps": steps, "rows": table}, indent=2) + "\n")

    def number(value, digits=0, suffix=""):
        return "-" if value is None else f"{value:,.{digits}f}{suffix}"

    print(f"| {machine.get('name', 'GPU')} | tok/s | PyTorch | ratio | prompt tok/s | ratio | of the limit, MFU | peak GiB |")
    print("|---|---|---|---|---|---|---|---|")
    for row in table:
        what = (f"{row['model']} decode, batch {row['batch']}, context {row['context']}" if row["work"] == "decode"
                else f"{row['model']} train, {row['batch']} x {row['length']}")
        share = row.get("ofLimit", row.get("mfu"))
        print(f"| {what} | {number(row['tokensPerSecond'])} | {row['torchError'] or number(row['torch'])} | "
              f"{number(row['ratio'], 2, 'x')} | {number(row.get('promptTokensPerSecond'))} | "
              f"{number(row.get('promptRatio'), 2, 'x')} | {number(share and 100 * share, 0, ' %')} | "
              f"{row['peakBytes'] / 2**30:.1f} |")
    print()
    for step in steps:
        print(f"{step['verdict']:8} {step['name']} ({step['seconds']} s)")


if __name__ == "__main__":
    main()
