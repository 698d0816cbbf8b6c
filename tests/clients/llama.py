"""Serves a tiny model of random weights with llama.cpp's own server, until its standard input closes.

The model says nonsense, but always the same at temperature 0. Usage: llama.py MODEL_FILE PORT
"""

import random
import struct
import sys
from array import array
from pathlib import Path

NAME = "tiny"
CONTEXT = 2048
SIZE = 64

TEMPLATE = """\
{%- for message in messages %}{{ message.role }}: {{ message.content }}
{% endfor -%}
{%- if add_generation_prompt %}assistant:{% endif -%}"""

# The kinds of tokens and values in a file of the format GGUF.
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
SCALARS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f"}


def vocabulary() -> list[tuple[str, int]]:
    special = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    of_bytes = [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
    words = [chr(code) for code in range(0x21, 0x7F)] + ["▁", "▁red", "▁apples"]
    return special + of_bytes + [(word, NORMAL) for word in words]


def packed(kind: int, value) -> bytes:
    """A value as the file has it."""
    if kind == STRING:
        text = value.encode()
        return struct.pack("<Q", len(text)) + text
    if kind == ARRAY:
        inner, values = value
        return struct.pack("<IQ", inner, len(values)) + b"".join(packed(inner, it) for it in values)
    return struct.pack(SCALARS[kind], value)


def write_model(path: Path) -> None:
    tokens = vocabulary()
    draw = random.Random(7)

    def weights(rows: int) -> array:
        return array("f", (draw.gauss(0, 1) for _ in range(rows * SIZE)))

    head = weights(len(tokens))
    for row, (_, kind) in enumerate(tokens):
        # The greatest of many drawn numbers is above zero: only words are said.
        if kind != NORMAL:
            head[row * SIZE : (row + 1) * SIZE] = array("f", [0.0] * SIZE)
    ones = array("f", [1.0] * SIZE)
    tensors = {"token_embd": weights(len(tokens)), "output": head, "output_norm": ones}
    for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]:
        tensors[f"blk.0.{name}"] = weights(SIZE)
    tensors |= {"blk.0.attn_norm": ones, "blk.0.ffn_norm": ones}
    values = {
        "general.architecture": (STRING, "llama"),
        "llama.context_length": (UINT32, CONTEXT),
        "llama.embedding_length": (UINT32, SIZE),
        "llama.block_count": (UINT32, 1),
        "llama.feed_forward_length": (UINT32, SIZE),
        "llama.attention.head_count": (UINT32, 2),
        "llama.attention.layer_norm_rms_epsilon": (FLOAT32, 1e-5),
        "tokenizer.ggml.model": (STRING, "llama"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, [text for text, _ in tokens])),
        "tokenizer.ggml.scores": (ARRAY, (FLOAT32, [0.0] * len(tokens))),
        "tokenizer.ggml.token_type": (ARRAY, (INT32, [kind for _, kind in tokens])),
        "tokenizer.ggml.bos_token_id": (UINT32, 1),
        "tokenizer.ggml.eos_token_id": (UINT32, 2),
        "tokenizer.chat_template": (STRING, TEMPLATE),
    }
    with path.open("wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(values)))
        for key, (kind, value) in values.items():
            file.write(packed(STRING, key) + struct.pack("<I", kind) + packed(kind, value))
        offset = 0
        for name, tensor in tensors.items():
            rows = [len(tensor) // SIZE] if len(tensor) > SIZE else []
            sizes = [SIZE, *rows]
            file.write(packed(STRING, f"{name}.weight") + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes))
            # The type of its numbers is FLOAT32, which is 0 here; each takes whole blocks of 32 bytes.
            file.write(struct.pack("<IQ", 0, offset))
            offset += len(tensor) * tensor.itemsize
        file.write(bytes(-file.tell() % 32))
        for tensor in tensors.values():
            tensor.tofile(file)


def main(model: str, port: str) -> None:
    import xllamacpp

    write_model(Path(model))
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {NAME}
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.use_jinja = True
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(params)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main(*sys.argv[1:])
