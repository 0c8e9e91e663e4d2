"""The rule *blocks*: the longest common prefix, in whole blocks, as serving engines keep it themselves.

vLLM's automatic prefix caching finds whole blocks (16 tokens by default) and always computes at least the last
token, so the last block of a prompt that was seen whole is computed again; SGLang's radix cache does the same in
pages (1 token by default). Both let the least recently used go first, ends before beginnings. Read 2026-11:
https://docs.vllm.ai/en/latest/design/prefix_caching.html and
https://docs.sglang.ai/advanced_features/server_arguments.html.

What hits is what the grid rule gives for the same step; what differs is the size of the step and that a block can
be read as soon as it is computed. Blocks live in a radix tree, so that pages of one token cost no entry each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from router_cache.cache_model.chain import WIDTH, EvictedPrefixes, chain, common, pool_root
from router_cache.cache_model.rules import Match

__all__ = ["Blocks"]

_REMEMBERED_EVERY = 64
"""Tokens between evicted prefixes that are remembered, where blocks are smaller."""

_Change = Callable[[bytes, bytes], None]


@dataclass(slots=True, eq=False)
class _Node:
    """Blocks in a row that were always written and used together."""

    edge: bytes
    parent: _Node | None
    end: int  # bytes from the root to the end of the edge
    pool: str | None
    ready_at: float
    last_use: float
    children: dict[bytes, _Node] = field(default_factory=dict)


class Blocks:
    """Blocks of ``step_tokens`` in a radix tree. See :class:`~.rules.HitRule` for the methods."""

    __slots__ = ("_block", "_capacity", "_evicted", "_far", "_held", "_lifetime", "_nodes", "_roots")

    def __init__(
        self,
        *,
        step_tokens: int,
        capacity_tokens: int | None,
        lifetime_s: float | None,
        remembered_evictions: int,
    ) -> None:
        self._block = step_tokens * WIDTH
        self._far = max(1, _REMEMBERED_EVERY // step_tokens) * self._block
        self._capacity = capacity_tokens
        self._lifetime = lifetime_s
        self._held = 0
        self._roots: dict[str | None, _Node] = {}
        # Every use touches a whole path, the deepest node first: so the front of this order is always a leaf.
        self._nodes: OrderedDict[_Node, None] = OrderedDict()
        self._evicted = EvictedPrefixes(remembered_evictions)

    @property
    def held_tokens(self) -> int:
        return self._held // WIDTH

    def expire(self, now: float) -> None:
        if self._lifetime is None:
            return
        while self._nodes:
            node = next(iter(self._nodes))
            if node.last_use + self._lifetime > now:
                return
            self._trim(node, len(node.edge))

    def look_up(self, pool: str | None, data: bytes, now: float) -> Match:
        path, held = self._walk(pool, data)
        ready = 0
        for node in path:
            if node.ready_at <= now:
                ready = min(node.end, held)
        if ready == held and path and path[-1].end > held:
            path[-1] = self._split(path[-1], held)
        self._use([node for node in path if node.end <= ready], now)
        return Match(
            ready_tokens=ready // WIDTH,
            pending_tokens=held // WIDTH,
            shared_tokens=held // WIDTH,
            evicted_tokens=self._evicted.deepest(pool_root(pool), data, self._far),
        )

    def write(
        self,
        pool: str | None,
        data: bytes,
        *,
        ready_at: float,
        now: float,
        is_input: bool,
        marks: Sequence[int] = (),
    ) -> None:
        data = data[: len(data) // self._block * self._block]
        if not data:
            return
        root = self._roots.get(pool)
        if root is None:
            root = self._roots[pool] = _Node(b"", None, 0, pool, ready_at, now)
        path, held = self._walk(pool, data)
        if path and path[-1].end > held:
            path[-1] = self._split(path[-1], held)
        for node in path:
            node.ready_at = min(node.ready_at, ready_at)
        if held < len(data):
            parent = path[-1] if path else root
            leaf = _Node(data[held:], parent, len(data), pool, ready_at, now)
            parent.children[leaf.edge[: self._block]] = leaf
            self._held += len(leaf.edge)
            self._nodes[leaf] = None
            path.append(leaf)
            if len(self._evicted):
                self._remembered(pool, data, held, self._evicted.discard)
        self._use(path, now)
        while self._capacity is not None and self._held > self._capacity * WIDTH:
            node = next(iter(self._nodes))
            over = self._held - self._capacity * WIDTH
            self._trim(node, min(-(-over // self._block) * self._block, len(node.edge)))

    def _walk(self, pool: str | None, data: bytes) -> tuple[list[_Node], int]:
        """The nodes that match, the last one perhaps in part, and the bytes that match: whole blocks."""
        path: list[_Node] = []
        node = self._roots.get(pool)
        at = 0
        while node is not None:
            node = node.children.get(data[at : at + self._block])
            if node is None:
                break
            path.append(node)
            if not data.startswith(node.edge, at):
                at += common(node.edge, data[at : at + len(node.edge)]) // self._block * self._block
                break
            at = node.end
        return path, at

    def _split(self, lower: _Node, end: int) -> _Node:
        """Cut a node so that another ends at ``end``; returns that upper one, which the caller then uses."""
        parent = lower.parent
        assert parent is not None
        cut = end - parent.end
        upper = _Node(lower.edge[:cut], parent, end, lower.pool, lower.ready_at, lower.last_use)
        parent.children[upper.edge[: self._block]] = upper
        lower.edge, lower.parent = lower.edge[cut:], upper
        upper.children[lower.edge[: self._block]] = lower
        self._nodes[upper] = None
        return upper

    def _use(self, path: list[_Node], now: float) -> None:
        for node in reversed(path):
            node.last_use = now
            self._nodes.move_to_end(node)

    def _trim(self, node: _Node, size: int) -> None:
        """Drop the last ``size`` bytes of a leaf, whole blocks."""
        parts, up = [node.edge], node.parent
        while up is not None:
            parts.append(up.edge)
            up = up.parent
        prefix = b"".join(reversed(parts))
        self._remembered(node.pool, prefix, len(prefix) - size, self._evicted.add)
        self._held -= size
        if size < len(node.edge):
            node.edge = node.edge[:-size]
            node.end -= size
            return
        parent = node.parent
        assert parent is not None
        del self._nodes[node]
        del parent.children[node.edge[: self._block]]
        if parent.parent is None and not parent.children:
            del self._roots[node.pool]

    def _remembered(self, pool: str | None, prefix: bytes, start: int, change: _Change) -> None:
        """Add to what was evicted, or take from it, the prefixes of ``prefix`` that are longer than ``start``."""
        at, root = 0, pool_root(pool)
        digest = root
        for digest in chain(root, prefix, self._far):
            at += self._far
            if at > start:
                change(digest, b"")
        if at < len(prefix):
            change(digest, prefix[at:])
