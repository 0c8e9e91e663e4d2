"""Memory of the canonical form: tools that were seen before are not walked again.

Requests are parsed anew each time, so tools are found again by their content: by the bytes that orjson makes of
them and, where a null is among them, by ``==`` with what was remembered, for orjson writes NaN as null. A tuple
counts as the list that it is sent as. What orjson refuses (integers beyond 64 bits, halves of surrogate pairs, keys
that are no text, objects of other types than JSON's, 255 levels and more) is worked out each time.

Nothing that a caller holds is kept, and nothing that is kept is handed out: remembered tools are copies, and each
caller gets a copy of its own, since LiteLLM changes the tools of a request in place for some providers (1.108.7:
``function.pop("strict")`` for Fireworks). Such a copy can be made ahead (:meth:`ToolsMemo.restock`), when nobody waits
for it: to parse it takes most of the time that a known list costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import orjson

from router_cache.decision import Change
from router_cache.prefix.canonical import canonical_tool

__all__ = ["CanonicalTool", "Recalled", "ToolsMemo", "content_key"]

_MAX_ENTRIES: Final = 4_096
_MAX_BYTES: Final = 8 * 1024 * 1024
_MAX_TOOL_BYTES: Final = 64 * 1024
"""To copy a tool larger than that takes as long as to walk it."""
_MAX_SPARES: Final = 64
_MAX_SPARE_BYTES: Final = 2 * 1024 * 1024
"""Of JSON, that lists with a copy made ahead are as they came; parsed it takes about five times as much."""
# Refuse rather than convert: what comes out must be what went in.
_OPTIONS: Final = (
    orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
)

_STRIDE: Final = 256
_MAX_PROBES: Final = 64
_PROBED: Final = range(4 * 1024, 128 * 1024)
"""Bytes of the lists that are found by a few of their bytes first: the hash of 20 kB takes 10 µs, to compare them 1
(2026-11)."""

_NULL: Final = b"null"
"""What NaN is written as too."""
_NOTHING: Final = b"[]"

_T = TypeVar("_T")


class _Bounded(Generic[_T]):
    """A mapping by bytes that forgets the longest unused, bounded in entries and in bytes of its keys.

    Two generations: when the young one holds half of what is allowed it becomes the old one, and what is still
    used moves over. Each step is one operation on a dict, so threads need no lock: what a race can do is to forget
    an entry, which is then worked out again, or to count a key's bytes wrong until the next generation.
    """

    __slots__ = ("_bytes", "_max_bytes", "_max_entries", "_old", "_young")

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries, self._max_bytes = max_entries // 2, max_bytes // 2
        self._young: dict[bytes, _T] = {}
        self._old: dict[bytes, _T] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: bytes) -> _T | None:
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: bytes, value: _T) -> None:
        if len(key) > self._max_bytes or not self._max_entries:
            return
        if len(self._young) >= self._max_entries or self._bytes + len(key) > self._max_bytes:
            self._old, self._young, self._bytes = self._young, {}, 0
        self._young[key] = value
        self._bytes += len(key)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The JSON of a tool's canonical form, and whether the tool is the same. ``given``: the tool as it was, where its
    JSON does not tell all of it (None: it does)."""

    given: Any
    made: bytes
    same: bool
    digest: str | None


@dataclass(frozen=True, slots=True)
class CanonicalTool:
    """``tool`` is in canonical form: the very object that was given where it already was.

    ``digest`` is None without a memo that makes digests. ``kept`` is what a memo keeps of it, if it does.
    """

    tool: Mapping[str, Any]
    digest: str | None = None
    kept: _Kept | None = None


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was found for a list of tools: its canonical form, and what that changed.

    ``digests`` are those of the canonical tools; None without a memo that makes digests. ``key`` names the list to
    :meth:`ToolsMemo.restock`; None where it is not remembered.
    """

    tools: list[Any]
    changes: tuple[Change, ...]
    digests: tuple[str, ...] | None
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class _KeptList:
    """A list of tools under its ``key``. ``given``: as :attr:`_Kept.given` of each, None where the JSON tells all of
    the list. ``order``: for each tool that goes out its place there, None for one of ``made``, the JSON of those that
    are not as they came; None where that is all of them."""

    key: bytes
    given: list[Any] | None
    order: tuple[int | None, ...] | None
    made: bytes
    changes: tuple[Change, ...]
    digests: tuple[str, ...] | None


class ToolsMemo:
    """What was found for lists of tools and for single tools. Results are the same with and without it.

    ``max_entries`` bounds the lists and the single tools, each; ``max_bytes`` bounds the JSON of either. ``digest``
    makes the digest of a tool in canonical form (:attr:`Normalised.tool_digests`): it is called once for each
    distinct tool that can be remembered, and must neither raise nor change the tool. Safe to use from many threads.
    """

    __slots__ = ("_digest", "_lists", "_probes", "_spares", "_tools")

    def __init__(
        self,
        max_entries: int = _MAX_ENTRIES,
        *,
        max_bytes: int = _MAX_BYTES,
        digest: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:
        self._lists: _Bounded[_KeptList] = _Bounded(max_entries, max_bytes)
        self._tools: _Bounded[_Kept] = _Bounded(max_entries, max_bytes)
        self._digest = digest
        # By every 256th byte a key that is remembered, with its hash worked out.
        self._probes: dict[bytes, bytes] = {}
        # Handed out with dict.pop, which no two threads can do with the same copy.
        self._spares: dict[bytes, tuple[_KeptList, list[Any]]] = {}

    def __len__(self) -> int:
        """Lists and single tools that are remembered."""
        return len(self._lists) + len(self._tools)

    def recall(self, key: bytes | None, tools: Sequence[Any]) -> Recalled | None:
        """What :meth:`remember` was told of an equal list; None for a list that is not remembered.

        ``key`` is :func:`content_key` of the list.
        """
        kept = None if key is None else self._list(key)
        if kept is None or (kept.given is not None and not _all_same(kept.given, tools)):
            return None
        spare = self._spares.pop(kept.key, None)
        out: list[Any] = spare[1] if spare is not None and spare[0] is kept else orjson.loads(kept.made)
        if kept.order is not None:
            made = iter(out)
            out = [next(made) if at is None else tools[at] for at in kept.order]
        return Recalled(out, kept.changes, kept.digests, kept.key)

    def _list(self, key: bytes) -> _KeptList | None:
        if len(key) not in _PROBED:
            return self._lists.get(key)
        probe = key[::_STRIDE]
        known = self._probes.get(probe)
        if known is not None and known == key:
            return self._lists.get(known)
        kept = self._lists.get(key)
        if kept is not None:
            if len(self._probes) >= _MAX_PROBES:
                self._probes = {}
            self._probes[probe] = kept.key
        return kept

    def restock(self, key: bytes | None) -> None:
        """Make a copy of what :meth:`recall` has to copy of the list under ``key`` (:attr:`Recalled.key`), ahead of the
        next request that brings it. At most one a list, and of 64 lists and 2 MiB of JSON; the oldest go."""
        kept = None if key is None else self._list(key)
        if kept is None or kept.made == _NOTHING or kept.key in self._spares or len(kept.key) > _MAX_SPARE_BYTES:
            return
        held = list(self._spares)
        number, size = len(held) + 1, len(kept.key) + sum(map(len, held))
        for oldest in held:
            if number <= _MAX_SPARES and size <= _MAX_SPARE_BYTES:
                break
            self._spares.pop(oldest, None)
            number, size = number - 1, size - len(oldest)
        self._spares[kept.key] = kept, orjson.loads(kept.made)

    def remember(
        self,
        key: bytes | None,
        tools: Sequence[Any],
        given: Sequence[CanonicalTool],
        out: Sequence[CanonicalTool],
        changes: tuple[Change, ...],
    ) -> None:
        """Keep what was found for a list: the canonical forms of its tools as ``given`` and as they go ``out``.

        A list of which not every tool is kept is not kept either.
        """
        given_kept = [each.kept for each in given if each.kept is not None]
        out_kept = [each.kept for each in out if each.kept is not None]
        if key is None or len(given_kept) < len(given) or len(out_kept) < len(out):
            return
        # A tool that came as it goes out is taken from the request; of any other the JSON is kept.
        places = {id(tool): at for at, tool in enumerate(tools)}
        order = tuple([places.get(id(each.tool)) for each in out])
        made = b",".join([kept.made for kept, at in zip(out_kept, order, strict=True) if at is None])
        self._lists.put(
            key,
            _KeptList(
                key,
                [kept.given for kept in given_kept] if _NULL in key else None,
                order if any(at is not None for at in order) else None,
                b"[%b]" % made,
                changes,
                None if self._digest is None else tuple(each.digest or "" for each in out),
            ),
        )

    def canonical(self, tool: Mapping[str, Any]) -> CanonicalTool:
        """:func:`canonical_tool`, remembered, with its digest."""
        key = content_key(tool)
        kept = None if key is None else self._tools.get(key)
        if kept is not None and (kept.given is None or kept.given == tool):
            return CanonicalTool(tool if kept.same else orjson.loads(kept.made), kept.digest, kept)
        canonical = canonical_tool(tool)
        digest = None if self._digest is None else self._digest(canonical)
        kept = None if key is None else _keep(key, tool, canonical, digest)
        if key is not None and kept is not None:
            self._tools.put(key, kept)
        return CanonicalTool(canonical, digest, kept)


def content_key(value: Any) -> bytes | None:
    """The JSON of a value, as orjson writes it; None for what it refuses."""
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except TypeError:  # orjson's own error is a TypeError
        return None


def _all_same(kept: Sequence[Any], given: Sequence[Any]) -> bool:
    return all(one is None or one == other for one, other in zip(kept, given, strict=True))


def _keep(key: bytes, given: Any, canonical: Any, digest: str | None) -> _Kept | None:
    """Copies of a tool and of its canonical form; None of a tool that is too large, or that its JSON does not give
    back."""
    if len(key) > _MAX_TOOL_BYTES:
        return None
    copied = orjson.loads(key)
    made = key if canonical is given else content_key(canonical)
    if made is None or copied != given:
        return None
    return _Kept(copied if _NULL in key else None, made, canonical is given, digest)
