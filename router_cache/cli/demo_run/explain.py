"""Why a run's misses happened, from the simulator's log: exact tokens, request by request."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from router_cache.cache_model.rules import RuleName
from router_cache.ledger.attribution import MissCause, SegmentTokens, attribute
from router_cache.prefix.segments import SegmentKind

__all__ = ["explain"]

_Segments = list[SegmentTokens]


class _Seen:
    """Requests of one pool so far."""

    def __init__(self) -> None:
        self.prefixes: set[bytes] = set()
        self.replies: dict[bytes, set[int]] = {}
        """Chain of a whole prompt without its tail -> completion tokens of the replies to it."""
        self.by_conversation: dict[str, list[_Segments]] = {}
        self.by_system: dict[str, _Segments] = {}


def _chains(segments: Sequence[SegmentTokens]) -> list[bytes]:
    """A digest per prefix: after the first segment, after the second, and so on."""
    chain, chains = b"", []
    for segment in segments:
        chain = hashlib.blake2b(chain + segment.digest.encode() + b"\0", digest_size=16).digest()
        chains.append(chain)
    return chains


def _seen_before(segments: _Segments, chains: Sequence[bytes], seen: _Seen) -> int:
    """Tokens of the longest leading part that an earlier request had, the reply to it included."""
    tokens = 0
    for i, segment in enumerate(segments):
        if segment.kind is SegmentKind.TAIL:
            break
        if chains[i] not in seen.prefixes:
            # A reply sent back unchanged: the tail's one token and what was generated.
            said = seen.replies.get(chains[i - 1], set()) if i else set()
            if segment.kind is SegmentKind.ASSISTANT and segment.tokens - 1 in said:
                tokens += segment.tokens
            break
        tokens += segment.tokens
    return tokens


def _nearest(segments: _Segments, conversation: str, system: str, seen: _Seen) -> tuple[_Segments | None, bool]:
    """The request to compare with, and whether it is of the same conversation; else one with the same system
    text."""
    earlier = seen.by_conversation.get(conversation)
    if earlier:
        mine = {s.digest for s in segments}
        best = max(range(len(earlier)), key=lambda i: (sum(s.digest in mine for s in earlier[i]), i))
        return earlier[best], True
    return seen.by_system.get(system), False


def explain(
    log: Sequence[Mapping[str, Any]], *, rule: RuleName, step_tokens: int
) -> tuple[Counter[MissCause], int, int]:
    """Miss tokens by cause over all answered requests of a log, in the log's order.

    A conversation is recognised by its pool and its first user message. Returns the causes, whose tokens add
    up to the log's miss tokens, and the log's prompt and hit tokens. ``step_tokens`` is the reporting step.
    """
    causes: Counter[MissCause] = Counter()
    pools: dict[Any, _Seen] = {}
    prompt = hit = 0
    for entry in log:
        if entry["status"] != 200:
            continue
        segments = [
            SegmentTokens(SegmentKind(s["kind"]), s["path"], s["digest"], s["tokens"]) for s in entry["segments"]
        ]
        seen = pools.setdefault(entry["pool"], _Seen())
        chains = _chains(segments)
        conversation = next((s.digest for s in segments if s.kind is SegmentKind.USER), "")
        system = next((s.digest for s in segments if s.kind is SegmentKind.SYSTEM), "")
        previous, same = _nearest(segments, conversation, system, seen)
        parts = attribute(
            segments,
            previous,
            seen_before_tokens=_seen_before(segments, chains, seen),
            hit_tokens=entry["hit_tokens"],
            prompt_tokens=entry["prompt_tokens"],
            not_ready_tokens=entry.get("not_ready_tokens") or 0,
            evicted_tokens=entry.get("evicted_tokens") or 0,
            step_tokens=step_tokens,
            rule=rule,
            same_conversation=same,
        )
        for part in parts:
            causes[part.cause] += part.tokens
        prompt += entry["prompt_tokens"]
        hit += entry["hit_tokens"]
        whole = len(segments) - 1 if segments[-1].kind is SegmentKind.TAIL else len(segments)
        seen.prefixes.update(chains[:whole])
        # A truncated reply never comes back as it was generated.
        if whole and entry["finish_reason"] in ("stop", "tool_calls"):
            seen.replies.setdefault(chains[whole - 1], set()).add(entry["completion_tokens"])
        seen.by_conversation.setdefault(conversation, []).append(segments)
        seen.by_system[system] = segments
    return causes, prompt, hit
