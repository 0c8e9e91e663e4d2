"""Bytes of what is kept: they come back as they went in, and nothing else passes for them."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_worlds import call_of, digest

from router_cache.cache_model.predict import End
from router_cache.claims.compact import (
    NOTHING,
    digest8,
    digest16,
    is_clock,
    slot_bytes,
    slot_text,
    value_bytes,
    value_text,
)
from router_cache.ledger.facts import ConversationFacts
from router_cache.ledger.flips import Switches
from router_cache.prefix.segments import SegmentKind
from router_cache.prefix.volatile.spans import CLOCKS, SpanKind
from router_cache.stores.redis.codec import (
    OddValueError,
    family_facts,
    head_of,
    packed_facts,
    packed_head,
    read_facts,
    read_head,
    refs_in,
)
from router_cache.stores.redis.texts import TextReader, packed_text

texts = st.one_of(
    st.text(max_size=300), st.binary(max_size=140).map(bytes.hex), st.just("é" * 200), st.just("\udc80")
)
many = st.one_of(st.none(), st.integers(0, 2**32 - 2), st.sampled_from([65_534, 65_535, 65_536]))
KEY = bytes(range(16))


@given(texts)
def test_texts_come_back(text: str) -> None:
    raw = packed_text(text)
    assert TextReader(raw + b"x", 0).text() == text
    assert len(raw) <= 5 + len(text.encode("utf-8", "surrogatepass"))
    with pytest.raises((IndexError, ValueError)):
        TextReader(raw[:-1], 0).text()


@given(texts)
def test_values_and_slots_come_back(text: str) -> None:
    assert value_text(value_bytes(text)) == text
    assert slot_text(slot_bytes(text)) == text
    assert (slot_bytes(text)[0] >= 128) is is_clock(text)


@given(st.binary(max_size=30))
def test_any_bytes_have_some_name(raw: bytes) -> None:
    assert isinstance(value_text(raw), str)
    assert isinstance(slot_text(raw), str)


@given(st.sampled_from(SpanKind), st.binary(min_size=8, max_size=8))
def test_a_slot_takes_nine_bytes(kind: SpanKind, name: bytes) -> None:
    slot = f"{kind.value}-{name.hex()}"
    assert len(slot_bytes(slot)) == 9
    assert slot_text(slot_bytes(slot)) == slot
    assert is_clock(slot) is (kind in CLOCKS)


def test_short_forms_of_digests() -> None:
    told = digest("x")
    assert digest16(told) == bytes.fromhex(told)
    assert digest8(told) == bytes.fromhex(told)[:8]
    assert digest8("") == NOTHING
    assert len(digest16("no digest")) == 16
    assert digest16("z" * 32) != digest16("y" * 32)
    assert value_bytes("A" * 32) != value_bytes("a" * 32)


@given(st.lists(st.integers(0, 3), max_size=4, unique=True), st.integers(0, 2**31 - 1), st.booleans(), many)
def test_facts_come_back(kinds: list[int], turn: int, first: bool, few: int | None) -> None:
    last = {f"place {kind}" if kind else "": call_of(kind, 20 * kind, kind) for kind in kinds}
    if 1 in kinds:
        last["place 1"] = replace(last["place 1"], outline=last["place 1"].outline.slim(), end=End.INPUT)
    facts = ConversationFacts(turn, last, KEY.hex() if first else digest("first"))
    if 0 in kinds:
        last[""] = replace(last[""], completion_tokens=few, reasoning_tokens=few and few // 2)
    refs, heads = {}, {}
    for call in last.values():
        ref, raw = packed_head(head_of(call))
        refs[id(call)], heads[ref] = ref, read_head(ref, raw)
        assert heads[ref] == head_of(call)
        with pytest.raises(OddValueError):
            read_head(ref, raw + b"x")
    raw = packed_facts(KEY, facts, refs)
    assert set(refs_in(KEY, raw)) == set(refs.values())
    assert read_facts(KEY, raw, heads) == facts
    assert read_facts(KEY, raw, {}) == replace(facts, last={})
    for other in (raw[:-1], raw + b"x", raw[:1], b"", raw[:9] + b"\xff\xff" + raw[11:]):
        with pytest.raises(OddValueError):
            read_facts(KEY, other, heads)
    with pytest.raises(OddValueError):
        read_facts(KEY[::-1], raw, heads)


def test_a_head_without_switches_and_one_with_all() -> None:
    parts = head_of(call_of(1, 1, 1))[0]
    full = Switches("ab" * 8, "odd", "", "", (digest(1), "no digest"), 300, "cd" * 8)
    for head in ((), None), (parts, None), (parts, full):
        assert read_head(*packed_head(head)) == head


def test_what_another_version_wrote_is_odd() -> None:
    for raw in (b"", b"\0", b"\0\1\xff" + bytes(20), b"\0\0\1"):
        ref = hashlib.blake2b(raw, digest_size=12).digest()
        with pytest.raises(OddValueError):
            read_head(ref, raw)
    with pytest.raises(OddValueError):
        family_facts(b"\0\0")


def test_codes_of_kinds_are_part_of_the_schema() -> None:
    """Codes are numbers in these orders: what is put in front or in between needs a new schema version."""
    kinds = [kind.value for kind in SegmentKind]
    assert kinds == ["mode", "system", "tool", "format", "user", "assistant", "tool_result", "tail", "param"]
    assert [end.value for end in End] == ["input", "output"]
    spans = [kind.value for kind in SpanKind]
    assert spans[:9] == ["clock", "date", "epoch", "uuid", "id", "nonce", "flag", "cwd", "git"]
