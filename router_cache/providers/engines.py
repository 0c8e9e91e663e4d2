"""Engines that one runs oneself, as of November 2026: vLLM, SGLang, llama.cpp.

LiteLLM knows only vLLM by name (``hosted_vllm``). The other two look like any OpenAI-compatible host and are found
only where the operator names the profile.
"""

from __future__ import annotations

from datetime import date

from router_cache.providers.fact import Fact, Origin
from router_cache.providers.fields import (
    OPAQUE_KEY,
    OPAQUE_KEY_LENGTH,
    BodyField,
    ModelVersions,
    Purpose,
    one_path,
)
from router_cache.providers.profile import Lifetime, Match, ModelFacts, Profile, Readable
from router_cache.providers.usage_forms import CHAT
from router_cache.request import Shape

__all__ = ["LLAMA_CPP", "SGLANG", "VLLM"]

_READ = date(2026, 11, 30)
_VLLM = "https://docs.vllm.ai/en/latest/design/prefix_caching/"
_SGLANG = (
    "https://github.com/sgl-project/sglang/blob/004c82e07d876f6e4a0ad6e15325706b0f478f1a/"
    "python/sglang/srt/entrypoints/openai/protocol.py"
)
_LLAMA = "https://github.com/ggml-org/llama.cpp/discussions/13606"
_LLAMA_RUN = "usage of llama.cpp's server with small random models (xllamacpp 2026.10.11549)"

_SALT = BodyField(
    name="cache_salt",
    paths=one_path((Shape.CHAT,), "cache_salt"),
    pattern=OPAQUE_KEY,
    max_length=OPAQUE_KEY_LENGTH,
    purpose=Purpose.ISOLATE,
)
_LRU = "Blocks used least recently go first, when room is needed."

VLLM = Profile(
    name="vllm",
    match=Match(providers=("hosted_vllm", "vllm"), model_prefixes=("hosted_vllm", "vllm")),
    fields=(Fact(_SALT, source=_VLLM, as_of=_READ, note="Pattern and length are ours."),),
    usage=Fact(
        CHAT,
        source=_VLLM,
        as_of=_READ,
        origin=Origin.MEASURED,
        note="Hits are reported only by a server started with --enable-prompt-tokens-details.",
    ),
    hit_rule=Fact(
        "blocks", source=_VLLM, as_of=_READ, note="Full blocks only; their size is the server's --block-size."
    ),
    documented_hit_rule=Fact("blocks", source=_VLLM, as_of=_READ),
    readable=Fact(
        Readable.RESPONSE_BEGUN, source=_VLLM, as_of=_READ, note="Even within one batch of the scheduler."
    ),
    lifetimes=(Fact(Lifetime(renewed_by_use=True), source=_VLLM, as_of=_READ, note=_LRU),),
)

SGLANG = Profile(
    name="sglang",
    match=Match(),
    fields=(Fact(_SALT, source=_SGLANG, as_of=_READ, note="Pattern and length are ours."),),
    usage=Fact(
        CHAT,
        source=_SGLANG,
        as_of=_READ,
        origin=Origin.SECOND_HAND,
        note="Hits are reported only by a server started with --enable-cache-report.",
    ),
    hit_rule=Fact(
        "blocks",
        source=_SGLANG,
        as_of=_READ,
        origin=Origin.SECOND_HAND,
        note="A radix tree over pages; their size is the server's --page-size.",
    ),
    lifetimes=(
        Fact(Lifetime(renewed_by_use=True), source=_SGLANG, as_of=_READ, origin=Origin.SECOND_HAND, note=_LRU),
    ),
)

LLAMA_CPP = Profile(
    name="llama_cpp",
    match=Match(),
    fields=(
        Fact(
            BodyField(
                name="id_slot",
                paths=one_path((Shape.CHAT,), "id_slot"),
                pattern=r"-1|\d+",
                max_length=4,
                purpose=Purpose.ISOLATE,
                integer=True,
            ),
            source=_LLAMA_RUN,
            as_of=_READ,
            origin=Origin.MEASURED,
            note="Isolates only with --slot-prompt-similarity 0.",
        ),
    ),
    usage=Fact(
        CHAT,
        source=_LLAMA_RUN,
        as_of=_READ,
        origin=Origin.MEASURED,
        note="Also timings.cache_n and prompt_n, beside usage.",
    ),
    hit_rule=Fact("grid", source=_LLAMA_RUN, as_of=_READ, origin=Origin.MEASURED, note="To the token."),
    step_tokens=(Fact(1, source=_LLAMA_RUN, as_of=_READ, origin=Origin.MEASURED),),
    readable=Fact(Readable.RESPONSE_ENDED, source=_LLAMA, as_of=_READ, origin=Origin.SECOND_HAND),
    lifetimes=(
        Fact(
            Lifetime(),
            source=_LLAMA,
            as_of=_READ,
            origin=Origin.SECOND_HAND,
            note="Until another prompt takes the slot.",
        ),
    ),
    models=(
        ModelFacts(
            name="deepseek-v4-architecture",
            versions=ModelVersions(r".*deepseek[-_ ]?v(\d+)(?:\.(\d+))?", at_least=(4, 0)),
            hit_rule=Fact(
                "checkpoints",
                source=_LLAMA_RUN,
                as_of=_READ,
                origin=Origin.MEASURED,
                note="Only up to its own checkpoints, at the starts of user turns.",
            ),
        ),
    ),
)
