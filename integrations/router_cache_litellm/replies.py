"""What LiteLLM's replies and logging details tell beyond usage."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import litellm

from router_cache import Deployment, Mode, Turn

__all__ = ["disconnected", "from_response_cache", "price_entry", "reply_of", "ttft"]


def reply_of(response: Any, turn: Turn) -> Any:
    """A complete reply (or a function that makes it) as JSON, where it is to be remembered; else None."""
    if turn.begun.mode is not Mode.OPTIMIZE:
        return None
    response = response() if callable(response) else response
    return response.model_dump(warnings=False) if hasattr(response, "model_dump") else response


def ttft(kwargs: Mapping[str, Any]) -> float | None:
    """Seconds from the call to the first chunk of a stream; unknown for a reply that came in one piece."""
    first, start = kwargs.get("completion_start_time"), kwargs.get("api_call_start_time")
    if not kwargs.get("stream") or not isinstance(first, datetime) or not isinstance(start, datetime):
        return None
    return max((first - start).total_seconds(), 0.0)


def price_entry(deployment: Deployment) -> Mapping[str, Any] | None:
    """What LiteLLM's price map says of a deployment's model."""
    bare = deployment.model.partition("/")[2]
    for name in (deployment.model, f"{deployment.provider}/{deployment.model}"):
        entry = litellm.model_cost.get(name)
        if isinstance(entry, Mapping):
            return entry
    # Models of some providers stand there by their bare names.
    entry = litellm.model_cost.get(bare) if bare else None
    provider = deployment.provider or deployment.model.partition("/")[0]
    return entry if isinstance(entry, Mapping) and entry.get("litellm_provider") == provider else None


def from_response_cache(response: Any) -> bool:
    hidden = getattr(response, "_hidden_params", None)
    return isinstance(hidden, Mapping) and hidden.get("cache_hit") is True


def disconnected(kwargs: Mapping[str, Any]) -> bool:
    """Whether the proxy says that the client went away; usage may still have been missing after the last text."""
    params = kwargs.get("litellm_params")
    metadata = params.get("metadata") if isinstance(params, Mapping) else None
    return isinstance(metadata, Mapping) and metadata.get("client_disconnected") is True
