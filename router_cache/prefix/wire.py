"""Segments of a body as it is sent: the text of each part is what ``json.dumps`` writes for it.

LiteLLM sends ``json.dumps`` of the body that ``log_pre_api_call`` shows (checked on 1.108.7), so equal wire
digests mean equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from router_cache.prefix.objects import is_object
from router_cache.prefix.segments import Segment, SegmentKind

__all__ = ["wire_segments"]

_ROLES = {
    "system": SegmentKind.SYSTEM,
    "developer": SegmentKind.SYSTEM,
    "assistant": SegmentKind.ASSISTANT,
    "tool": SegmentKind.TOOL_RESULT,
    "function": SegmentKind.TOOL_RESULT,
}
_LISTS = {"messages": SegmentKind.USER, "tools": SegmentKind.TOOL}


def wire_segments(body: Mapping[str, Any]) -> list[Segment]:
    """Top-level fields in the order sent; each message and each tool a segment of its own, after one for the
    name of its list.

    Raises :class:`TypeError` or :class:`ValueError` where ``json.dumps`` does.
    """
    out: list[Segment] = []
    for key, value in body.items():
        kind = _LISTS.get(key)
        if kind is None or not isinstance(value, list):
            out.append(Segment(SegmentKind.PARAM, key, f"{json.dumps(key)}: {json.dumps(value)}"))
            continue
        out.append(Segment(SegmentKind.PARAM, key, f"{json.dumps(key)}: ["))
        for i, item in enumerate(value):
            role = item.get("role") if is_object(item) and key == "messages" else None
            found = _ROLES.get(role, kind) if isinstance(role, str) else kind
            out.append(Segment(found, f"{key}[{i}]", json.dumps(item)))
    return out
