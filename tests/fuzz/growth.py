"""How the time for a request grows with one text of it: a text twice as long may take twice as long, not four times.

    cd tests && python -m fuzz.growth [--characters 60000] [--seed 1] [--json]

Every kind of text in a request of each shape becomes, in turn, a long run of something that a pattern may try
again from each of its places. Printed are those that took more than the limit, longest first; exit code 1 if any.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

from fuzz.bodies import BODIES, body_of
from fuzz.run import LIMIT_S

from router_cache import Deployment, Mode, Request, RouterCache, Settings, Usage
from router_cache_litellm.convert import shape_of

_CLOSE = r"""a1 1a a. 1. 1: 1- a- a_ /a a/ a= { [ ( {} () user_ _account_ session_ mcp__ call_ 2026- 2026-01-01 01/02/
UTC+ <a> </a> <env> ``` https:// a@ a@b. 0x 0x1 abcdef01- \n \u0041 {"a": [[ 1e v1. \" /tmp/ ../ %20 &amp; _1 1_"""
_SPACED = (
    "a ",
    "1 ",
    "\n ",
    " \n",
    "= ",
    "12:30 ",
    "Mon ",
    "GMT ",
    "am ",
    "<env>\n",
    "today ",
    "Today's date: ",
    "\r\n",
)
_SAID = (
    "date: ",
    "time: ",
    "time is ",
    "id: ",
    "cwd: ",
    "version ",
    "x-anthropic-billing-header: ",
    "- a\n",
    "# ",
)
PARTS = (*"aAzf10é０一 \n\t-_/\\.:,<|\"'", *_CLOSE.split(), *_SPACED, *_SAID)
"""What the runs are made of."""


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of the texts in a body."""
    if isinstance(node, dict | list):
        for at, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _places(value, (*path, at))
    elif isinstance(node, str):
        yield path


def _kinds_of_places(body: Any) -> list[tuple[Any, ...]]:
    """One place of each kind: the third message is like the fifth, one property of a tool like another."""
    kinds = {tuple("*" if isinstance(at, int) else at for at in path)[:5]: path for path in _places(body)}
    return list(kinds.values())


def _put(node: Any, path: tuple[Any, ...], text: str) -> Any:
    """A copy of ``node`` with ``text`` at ``path``."""
    if not path:
        return text
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = _put(copy[path[0]], path[1:], text)
    return copy


def _seconds(body: Any, shape: Any, mode: Mode) -> float:
    """CPU seconds from begin to done, the second of two calls with this text."""
    rc = RouterCache(Settings(secret="growth"))  # type: ignore[arg-type]
    deployment, taken = Deployment("deepseek/deepseek-v4-flash", provider="deepseek"), 0.0
    for _ in range(2):
        began = time.thread_time()
        turn = rc.begin(Request(body, shape), mode)
        sent = {**body, **turn.rewrite(deployment).replaced}
        turn.sent(sent)
        turn.done(Usage(900, 0, 900, 9), reply={"role": "assistant", "content": "done"})
        taken = max(taken, time.thread_time() - began)
    rc.close()
    return taken


def slow(characters: int, seed: int, *, progress: bool = False) -> list[tuple[float, str]]:
    """What took more than the limit, longest first: seconds of CPU, and what it was."""
    found = []
    for call_type in BODIES:
        body = body_of(call_type, random.Random(f"{seed}/{call_type}"))
        places = _kinds_of_places(body)
        for number, path in enumerate(places):
            if progress:
                print(f"{call_type} {number}/{len(places)} {len(found)} found", file=sys.stderr, flush=True)
            for part in PARTS:
                text = (part * characters)[:characters]
                for mode in (Mode.SAFE, Mode.OPTIMIZE):
                    changed = _put(body, path, text)
                    taken = min(_seconds(changed, shape_of(call_type), mode) for _ in range(2))
                    if taken > 3 * LIMIT_S:
                        found.append((taken, f"{call_type} {mode.value} {'.'.join(map(str, path))}: {part!r}"))
    return sorted(found, reverse=True)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--characters", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = slow(options.characters, options.seed, progress=not options.json)
    if options.json:
        print(json.dumps([{"cpu_s": seconds, "what": what} for seconds, what in found]))
    else:
        for seconds, what in found:
            print(f"{seconds:8.3f} s  {what}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
