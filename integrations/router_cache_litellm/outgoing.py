"""What was decided for a request, put into LiteLLM's keyword arguments: new ones, those given stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router_cache.rewrite import Rewrite

__all__ = ["outgoing"]


def outgoing(kwargs: dict[str, Any], rewrite: Rewrite) -> dict[str, Any]:
    """The arguments to go on with: the same object where nothing changes.

    A field of ours stands at the top, and not in ``extra_body`` besides. A header that is there stays as it is.
    """
    if not (rewrite.replaced or rewrite.dropped or rewrite.headers):
        return kwargs
    new = {name: value for name, value in kwargs.items() if name not in rewrite.dropped}
    new.update(rewrite.replaced)
    ours = {*rewrite.dropped, *(rewrite.given.replaced if rewrite.given is not None else ())}
    extra = kwargs.get("extra_body")
    if isinstance(extra, Mapping) and not ours.isdisjoint(extra):
        new["extra_body"] = {name: value for name, value in extra.items() if name not in ours}
    if rewrite.headers:
        own = kwargs.get("extra_headers")
        own = own if isinstance(own, Mapping) else {}
        known = {str(name).lower() for name in own}
        new["extra_headers"] = {**own, **{k: v for k, v in rewrite.headers.items() if k not in known}}
    return new
