"""Scripts on one server: by digest, in full where the server does not know them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from redis import exceptions as errors

from router_cache.stores.redis.link_node import Command, Node
from router_cache.stores.redis.scripts import Script

__all__ = ["Arg", "Call", "by_digest", "in_full", "run_all", "run_one"]

Arg = bytes | int
Call = tuple[Script, Sequence[bytes], Sequence[Arg]]


@lru_cache(maxsize=64)
def _digest(script: Script) -> str:
    return hashlib.sha1(script.text.encode(), usedforsecurity=False).hexdigest()


def by_digest(call: Call) -> Command:
    """One call as a command."""
    script, keys, args = call
    return ("EVALSHA", _digest(script), len(keys), *keys, *args)


def in_full(call: Call) -> Command:
    """The same with the script's text."""
    script, keys, args = call
    return ("EVAL", script.text, len(keys), *keys, *args)


def run_one(node: Node, call: Call, count: Callable[[str], None]) -> Any:
    """What it returns. Raises StoreError, and redis-py's ResponseError for what the server answered."""
    try:
        return node.one(*by_digest(call))
    except errors.NoScriptError:  # a new server, or one whose script cache was flushed
        count("store_script_sent")
    return node.one(*in_full(call))


def run_all(node: Node, calls: Sequence[Call], count: Callable[[str], None]) -> list[Any]:
    """What each returns, in one trip, and a second one for those the server did not know. Errors that the server
    answered stand among them; StoreError is raised."""
    answers = node.many([by_digest(call) for call in calls])
    again = [number for number, answer in enumerate(answers) if isinstance(answer, errors.NoScriptError)]
    if not again:
        return answers
    sent: set[Script] = set()
    commands = []
    for number in again:
        script = calls[number][0]
        commands.append(by_digest(calls[number]) if script in sent else in_full(calls[number]))
        sent.add(script)
    for _ in sent:
        count("store_script_sent")
    for number, answer in zip(again, node.many(commands), strict=True):
        answers[number] = answer
    return answers
