/**
 * Writes our models as GGUF, so that llama.cpp runs the same weights. The tokenizer is a stand-in: the tools that
 * measure speed feed token ids, but will not load a model without one.
 */
import { open } from "node:fs/promises";
import type { Policy } from "hindsearch";

const ALIGNMENT = 32;
/** Numbers of the format: types of metadata values and of tensors, and what llama.cpp calls a file of mostly bf16. */
const UINT32 = 4;
const INT32 = 5;
const FLOAT32 = 6;
const STRING = 8;
const ARRAY = 9;
const TENSOR_F32 = 0;
const TENSOR_BF16 = 30;
const FILE_TYPE_BF16 = 32;
/** Kinds of tokens. */
const NORMAL = 1;
const CONTROL = 3;

/** Writes a Qwen2 policy with tied embeddings, matrices in bf16. */
export async function writeGguf(policy: Policy, path: string): Promise<void> {
  const tensors = policy.parameters.map(({ name, shape }) => ({ name, shape, target: ggufName(name) }));
  const header = new Bytes();
  header.raw(Buffer.from("GGUF"));
  header.uint32(3);
  header.uint64(tensors.length);
  writeMetadata(header, policy);
  let offset = 0;
  for (const { target, shape } of tensors) {
    header.string(target);
    header.uint32(shape.length);
    // The innermost dimension comes first.
    for (const size of [...shape].reverse()) header.uint64(size);
    header.uint32(shape.length > 1 ? TENSOR_BF16 : TENSOR_F32);
    header.uint64(offset);
    offset += padded(sizeOf(shape));
  }
  const file = await open(path, "w");
  try {
    await file.appendFile(aligned(header.toBuffer()));
    for (const { name, shape } of tensors) {
      const values = await policy.weight(name);
      await file.appendFile(aligned(shape.length > 1 ? toBf16(values) : bytesOf(values)));
    }
  } finally {
    await file.close();
  }
}

function writeMetadata(header: Bytes, { config }: Policy): void {
  const { hidden, layers, heads, kvHeads, intermediate, maxPositions, vocabulary } = config;
  const tokens = standInTokens(vocabulary);
  const entries: [name: string, write: (bytes: Bytes) => void][] = [
    ["general.architecture", text("qwen2")],
    ["general.file_type", uint32(FILE_TYPE_BF16)],
    ["qwen2.block_count", uint32(layers)],
    ["qwen2.context_length", uint32(maxPositions)],
    ["qwen2.embedding_length", uint32(hidden)],
    ["qwen2.feed_forward_length", uint32(intermediate)],
    ["qwen2.attention.head_count", uint32(heads)],
    ["qwen2.attention.head_count_kv", uint32(kvHeads)],
    ["qwen2.attention.layer_norm_rms_epsilon", float32(config.rmsEpsilon)],
    ["qwen2.rope.freq_base", float32(config.ropeTheta)],
    ["tokenizer.ggml.model", text("gpt2")],
    ["tokenizer.ggml.pre", text("qwen2")],
    ["tokenizer.ggml.tokens", list(STRING, tokens, (bytes, token) => bytes.string(token))],
    [
      "tokenizer.ggml.token_type",
      list(INT32, tokens, (bytes, _, id) => bytes.uint32(id < 256 ? NORMAL : CONTROL)),
    ],
    ["tokenizer.ggml.merges", list(STRING, ["a b"], (bytes, merge) => bytes.string(merge))],
    ["tokenizer.ggml.eos_token_id", uint32(vocabulary - 1)],
  ];
  header.uint64(entries.length);
  for (const [name, write] of entries) {
    header.string(name);
    write(header);
  }
}

/** A character for every byte, as GPT-2 has it, and names for the rest. */
function standInTokens(vocabulary: number): string[] {
  let next = 0x100;
  return Array.from({ length: vocabulary }, (_, id) => {
    if (id >= 256) return `<${id}>`;
    const printable = (id > 0x20 && id < 0x7f) || (id > 0xa0 && id !== 0xad);
    return String.fromCharCode(printable ? id : next++);
  });
}

/** E.g. `model.layers.3.mlp.up_proj.weight` is `blk.3.ffn_up.weight`. */
function ggufName(name: string): string {
  const whole: Record<string, string> = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
  };
  const parts: Record<string, string> = {
    input_layernorm: "attn_norm",
    post_attention_layernorm: "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
  };
  const [, layer, part = "", kind] = /^model\.layers\.(\d+)\.(.+)\.(weight|bias)$/.exec(name) ?? [];
  const target = whole[name] ?? (parts[part] && `blk.${layer}.${parts[part]}.${kind}`);
  if (target === undefined) throw new Error(`${name} has no name in GGUF that we know.`);
  return target;
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((size, n) => size * n, shape.length > 1 ? 2 : 4);
}

/** To the nearest, ties to even; weights are finite. */
function toBf16(values: Float32Array): Buffer {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const rounded = new Uint16Array(values.length);
  for (let i = 0; i < bits.length; i++) {
    const word = bits[i] as number;
    rounded[i] = (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
  return bytesOf(rounded);
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array | Uint16Array) =>
  Buffer.from(buffer, byteOffset, byteLength);
const padded = (bytes: number) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
const aligned = (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc(padded(bytes.length) - bytes.length)]);

const text = (value: string) => (bytes: Bytes) => {
  bytes.uint32(STRING);
  bytes.string(value);
};
const uint32 = (value: number) => (bytes: Bytes) => {
  bytes.uint32(UINT32);
  bytes.uint32(value);
};
const float32 = (value: number) => (bytes: Bytes) => {
  bytes.uint32(FLOAT32);
  bytes.float32(value);
};
const list =
  <Item>(type: number, items: readonly Item[], write: (bytes: Bytes, item: Item, index: number) => void) =>
  (bytes: Bytes) => {
    bytes.uint32(ARRAY);
    bytes.uint32(type);
    bytes.uint64(items.length);
    items.forEach((item, index) => {
      write(bytes, item, index);
    });
  };

/** Little-endian bytes that grow. */
class Bytes {
  readonly #parts: Buffer[] = [];

  raw(bytes: Buffer): void {
    this.#parts.push(bytes);
  }
  uint32(value: number): void {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    this.raw(bytes);
  }
  uint64(value: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt(value));
    this.raw(bytes);
  }
  float32(value: number): void {
    const bytes = Buffer.alloc(4);
    bytes.writeFloatLE(value);
    this.raw(bytes);
  }
  string(value: string): void {
    const bytes = Buffer.from(value);
    this.uint64(bytes.length);
    this.raw(bytes);
  }
  toBuffer(): Buffer {
    return Buffer.concat(this.#parts);
  }
}
