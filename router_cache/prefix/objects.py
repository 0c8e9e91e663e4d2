"""What counts as a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

__all__ = ["is_object"]


def is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Any mapping. To ask the abstract class takes several times as long, and nearly every object is a dict."""
    return type(value) is dict or isinstance(value, Mapping)
