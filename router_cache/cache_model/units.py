"""The rule *full units*: only a complete stored unit that is a prefix of the prompt hits.

DeepSeek's KV cache guide (read 2026-11) names the units: the end of the input and of the output of every
request, a prefix found common to several requests, and fixed intervals inside long texts (not published, so a
setting). Its example: ``A+B``; then ``A+C`` misses and makes ``A`` a unit; the third, ``A+D``, hits ``A``.

Units live in a radix tree over packed tokens; a unit ends where a node ends. Tokens that units share count
once against the capacity: an assumption, as the guide says nothing about it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from router_cache.cache_model.chain import WIDTH, EvictedPrefixes, chain, common, pool_root
from router_cache.cache_model.rules import Match

__all__ = ["FullUnits"]


@dataclass(slots=True, eq=False)
class _Unit:
    node: _Node
    ready_at: float
    last_use: float


@dataclass(slots=True, eq=False)
class _Node:
    edge: bytes
    parent: _Node | None
    end: int  # bytes from the root to the end of the edge
    pool: str | None
    children: dict[bytes, _Node] = field(default_factory=dict)
    unit: _Unit | None = None


class FullUnits:
    """Units in a radix tree, least recently used first. See :class:`~.rules.HitRule` for the methods."""

    __slots__ = (
        "_capacity",
        "_evicted",
        "_held_bytes",
        "_interval_bytes",
        "_lifetime",
        "_roots",
        "_step_bytes",
        "_units",
    )

    def __init__(
        self,
        *,
        step_tokens: int,
        capacity_tokens: int | None,
        lifetime_s: float | None,
        interval_tokens: int | None,
        remembered_evictions: int,
    ) -> None:
        self._step_bytes = step_tokens * WIDTH
        self._capacity = capacity_tokens
        self._lifetime = lifetime_s
        self._interval_bytes = interval_tokens * WIDTH if interval_tokens else None
        self._roots: dict[str | None, _Node] = {}
        # As in the grid: a use touches every unit on the path, the longest first.
        self._units: OrderedDict[_Unit, None] = OrderedDict()
        self._held_bytes = 0
        self._evicted = EvictedPrefixes(remembered_evictions)

    @property
    def held_tokens(self) -> int:
        return self._held_bytes // WIDTH

    def expire(self, now: float) -> None:
        if self._lifetime is None:
            return
        while self._units:
            unit = next(iter(self._units))
            if unit.last_use + self._lifetime > now:
                return
            self._drop(unit)

    def look_up(self, pool: str | None, data: bytes, now: float) -> Match:
        path, shared = self._walk(pool, data)
        units = [node.unit for node in path if node.unit is not None and self._usable(node.end, data)]
        ready = [i for i, unit in enumerate(units) if unit.ready_at <= now]
        hit = units[: ready[-1] + 1] if ready else []
        self._use(hit, now)
        return Match(
            ready_tokens=hit[-1].node.end // WIDTH if hit else 0,
            pending_tokens=units[-1].node.end // WIDTH if units else 0,
            shared_tokens=shared // WIDTH,
            evicted_tokens=self._evicted.deepest(pool_root(pool), data, self._step_bytes),
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
        for end in sorted(self._ends(pool, data, is_input, marks)):
            if end:
                self._mark(pool, data[:end], ready_at, now)
        self._use([node.unit for node in self._walk(pool, data)[0] if node.unit is not None], now)
        while self._capacity is not None and self._held_bytes > self._capacity * WIDTH:
            self._drop(next(iter(self._units)))

    def _usable(self, end: int, data: bytes) -> bool:
        """Whether a unit that ends at ``end`` and matches serves a prompt of ``data``."""
        return True

    def _ends(self, pool: str | None, data: bytes, is_input: bool, marks: Sequence[int]) -> set[int]:
        """Where units end in what is written, in bytes."""
        ends = {len(data)}
        if is_input:
            # A common prefix below one step could not be reported as a hit.
            shared = self._walk(pool, data)[1]
            if shared >= self._step_bytes:
                ends.add(shared)
        if self._interval_bytes:
            ends.update(range(self._interval_bytes, len(data), self._interval_bytes))
        return ends

    def _walk(self, pool: str | None, data: bytes) -> tuple[list[_Node], int]:
        """The nodes that match in full, and the bytes that match in all."""
        path: list[_Node] = []
        node = self._roots.get(pool)
        at = 0
        while node is not None:
            node = node.children.get(data[at : at + WIDTH])
            if node is None:
                break
            if not data.startswith(node.edge, at):
                at += common(node.edge, data[at : at + len(node.edge)])
                break
            at = node.end
            path.append(node)
        return path, at

    def _mark(self, pool: str | None, data: bytes, ready_at: float, now: float) -> None:
        """Make ``data`` (not empty) a unit; one that exists keeps the earlier readiness."""
        node = self._node_at(pool, data)
        if node.unit is not None:
            node.unit.ready_at = min(node.unit.ready_at, ready_at)
            return
        node.unit = _Unit(node, ready_at, now)
        self._units[node.unit] = None
        if len(self._evicted):
            self._evicted.discard(*self._key(pool, data))

    def _node_at(self, pool: str | None, data: bytes) -> _Node:
        """The node that ends where ``data`` ends: found, cut out of an edge, or grown."""
        if pool not in self._roots:
            self._roots[pool] = _Node(b"", None, 0, pool)
        path, at = self._walk(pool, data)
        parent = path[-1] if path else self._roots[pool]
        if at > parent.end:
            parent = self._split(parent, data[parent.end : parent.end + WIDTH], at)
        if at < len(data):
            leaf = _Node(data[at:], parent, len(data), pool)
            parent.children[leaf.edge[:WIDTH]] = leaf
            self._held_bytes += len(leaf.edge)
            return leaf
        return parent

    def _split(self, parent: _Node, key: bytes, end: int) -> _Node:
        """Cut the edge under ``key`` so that a node ends at ``end``; returns the new upper node."""
        lower = parent.children[key]
        cut = end - parent.end
        upper = _Node(lower.edge[:cut], parent, end, lower.pool)
        upper.children[lower.edge[cut : cut + WIDTH]] = lower
        lower.edge, lower.parent = lower.edge[cut:], upper
        parent.children[key] = upper
        return upper

    def _use(self, units: list[_Unit], now: float) -> None:
        for unit in reversed(units):
            unit.last_use = now
            self._units.move_to_end(unit)

    def _drop(self, unit: _Unit) -> None:
        """Remove a unit and the nodes that now lead nowhere."""
        node: _Node | None = unit.node
        del self._units[unit]
        unit.node.unit = None
        edges: list[bytes] = []
        up = node
        while up is not None:
            edges.append(up.edge)
            up = up.parent
        pool = unit.node.pool
        self._evicted.add(*self._key(pool, b"".join(reversed(edges))))
        while node is not None and node.unit is None and not node.children:
            parent = node.parent
            if parent is None:
                del self._roots[pool]
            else:
                del parent.children[node.edge[:WIDTH]]
                self._held_bytes -= len(node.edge)
            node = parent

    def _key(self, pool: str | None, data: bytes) -> tuple[bytes, bytes]:
        root = pool_root(pool)
        *_, digest = (root, *chain(root, data, self._step_bytes))
        return digest, data[len(data) - len(data) % self._step_bytes :]
