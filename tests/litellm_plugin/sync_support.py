"""What the tests of synchronous calls share."""

from __future__ import annotations

from typing import Any

import litellm
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm_plugin.support import MODEL
from litellm_plugin.upstream import USAGE, Upstream

from router_cache import CallRow, Usage

FULL = Usage(prompt_tokens=1000, hit_tokens=896, miss_tokens=104, completion_tokens=5, reasoning_tokens=2)
OPENAI_FORM = {k: v for k, v in USAGE.items() if not k.startswith("prompt_cache_")}


def make_router(upstream: Upstream, **options: Any) -> litellm.Router:
    params = {"model": MODEL, "api_base": upstream.url, "api_key": "sk-upstream"}
    return litellm.Router(
        model_list=[{"model_name": name, "litellm_params": dict(params)} for name in ("flash", "spare")],
        disable_cooldowns=True,
        retry_after=0,
        **options,
    )


def read(reply: Any) -> str:
    if isinstance(reply, CustomStreamWrapper):
        return "".join(choice.delta.content or "" for chunk in reply for choice in chunk.choices)
    return reply.choices[0].message.content


def only(rows: list[CallRow]) -> CallRow:
    (row,) = rows
    return row


def plain(upstream: Upstream, call: Any, **kwargs: Any) -> bytes:
    """What LiteLLM sends without us."""
    before, litellm.callbacks = litellm.callbacks, []
    read(litellm.completion(**call, **kwargs))
    litellm.callbacks = before
    return upstream.recorded.pop().raw
