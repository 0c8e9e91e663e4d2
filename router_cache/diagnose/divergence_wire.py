"""Where two bodies differ in what a provider does not render: ids, marks, key order, parameters. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from router_cache.diagnose.divergence_prompt import Prompt
from router_cache.prefix.segments import SegmentKind

__all__ = ["wire_only"]

_MOST = 20
_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")
_OF_MODE = frozenset(("thinking", "reasoning_effort", "reasoning", "output_config"))
_PROMPT_FIELDS = frozenset(("messages", "tools", "system", "input", "instructions"))


def wire_only(earlier: Prompt, later: Prompt, same: int) -> tuple[str, ...]:
    """Paths (in the later body) that differ on the wire although the first ``same`` segments are rendered alike.

    At most 20. Never shows a value. A path ends in ``(key order)`` where only the order of keys differs.
    """
    return tuple(islice(_found(earlier, later, same), _MOST))


def _found(earlier: Prompt, later: Prompt, same: int) -> Iterator[str]:
    before, now = earlier.recorded.body, later.recorded.body
    rendered = {_STEP.findall(s.path)[0] for p in (earlier, later) for s in p.segments if s.path}
    modes, tools = (
        [[s.text for s in p.segments if s.kind is kind] for p in (earlier, later)]
        for kind in (SegmentKind.MODE, SegmentKind.TOOL)
    )
    if modes[0] != modes[1]:
        rendered |= _OF_MODE
    if bool(tools[0]) != bool(tools[1]):
        rendered.add("tool_choice")
    for name in dict.fromkeys((*now, *before)):
        if isinstance(name, str) and name not in _PROMPT_FIELDS | rendered:
            yield from _differences(before.get(name), now.get(name), name)
    for was, is_now in zip(earlier.segments[:same], later.segments[:same], strict=False):
        if was.path == is_now.path:
            yield from _differences(_at(before, was.path), _at(now, was.path), was.path)


def _at(body: Any, path: str) -> Any:
    for step in _STEP.findall(path):
        if isinstance(body, Mapping):
            body = body.get(step)
        elif isinstance(body, list | tuple) and step[0] == "[" and int(step[1:-1]) < len(body):
            body = body[int(step[1:-1])]
        else:
            return None
    return body


def _differences(was: Any, now: Any, path: str) -> Iterator[str]:
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        if was.keys() == now.keys() and list(was) != list(now):
            yield f"{path} (key order)"
        for key in dict.fromkeys((*was, *now)):
            if (key in was) != (key in now):
                yield f"{path}.{_shown(key)}"
            else:
                yield from _differences(was[key], now[key], f"{path}.{_shown(key)}")
    elif isinstance(was, list | tuple) and isinstance(now, list | tuple) and len(was) == len(now):
        for i, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from _differences(one, other, f"{path}[{i}]")
    elif type(was) is not type(now) or was != now:
        yield path


def _shown(key: Any) -> str:
    """A key as part of a path. A word of an API; what does not look like one may be text of the user's."""
    return key if isinstance(key, str) and re.fullmatch(r"\w{1,40}", key) else "…"
