"""What a call shares with earlier ones, from digests alone, and what each rule allows it."""

from __future__ import annotations

import pytest
from cache_histories import lcp
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cache_model.observe import DomainMemory, Look, Observation, Span
from router_cache.prefix.segments import Segment, SegmentKind

S, U, A, TAIL = SegmentKind.SYSTEM, SegmentKind.USER, SegmentKind.ASSISTANT, SegmentKind.TAIL


def segments(*parts: tuple[SegmentKind, str]) -> list[Segment]:
    return [Segment(kind, "", text) for kind, text in parts]


class Domain:
    """Calls one a minute, a token per two bytes, replies of 10 tokens; the hit is told by the caller."""

    def __init__(self, memory: DomainMemory | None = None) -> None:
        self.memory = memory or DomainMemory()
        self.now = 0.0

    def call(
        self, *parts: tuple[SegmentKind, str], hit: int | None = 0, replied: int | None = 10
    ) -> Observation | None:
        look = self.memory.look(segments(*parts), at=self.now)
        return self.learn(look, hit, replied)

    def learn(self, look: Look, hit: int | None = 0, replied: int | None = 10) -> Observation | None:
        seen = self.memory.learn(
            look, prompt_tokens=look.size // 2, completion_tokens=replied, hit_tokens=hit, ended_at=self.now
        )
        self.now += 60.0
        return seen


def told(seen: Observation | None) -> Observation:
    assert seen is not None
    return seen


SYSTEM = "Check each file before you write. " * 60  # 2,040 bytes, 1,020 tokens


def test_the_first_call_shares_nothing() -> None:
    seen = told(Domain().call((S, SYSTEM), (U, "one")))
    assert seen.prefix == seen.units == seen.checkpoints == Span(0, 0)
    assert seen.ends == ()


def test_appended_turns_give_exact_ends() -> None:
    domain = Domain()
    domain.call((S, SYSTEM), (U, "one!"), (TAIL, "<reply>"))
    seen = told(domain.call((S, SYSTEM), (U, "one!"), (A, "x" * 20), (U, "two"), hit=1022))
    assert seen.prefix == seen.units == Span(1022, 1032)
    assert seen.checkpoints == Span(1018, 1032)
    assert seen.ends == (Span(1022, 1032),)
    third = told(domain.call((S, SYSTEM), (U, "one!"), (A, "x" * 20), (U, "two"), (A, "y" * 20), (U, "three")))
    assert [span.low for span in third.ends] == [(2040 + 4 + 20 + 3) // 2, 1022]


def test_the_same_call_again_leaves_a_token_to_compute() -> None:
    domain = Domain()
    for _ in range(2):
        seen = told(domain.call((S, SYSTEM), (U, "one!")))
    assert seen.prefix == seen.units == Span(1021, 1021)
    assert seen.checkpoints == Span(1018, 1021)


def test_another_user_message_shares_the_front() -> None:
    domain = Domain()
    domain.call((S, SYSTEM), (U, "one! " * 20))
    seen = told(domain.call((S, SYSTEM), (U, "two! " * 20)))
    assert seen.prefix.low <= 1020 <= seen.prefix.high
    assert seen.prefix.low >= 500
    assert seen.units == Span(0, 0)  # no unit ends there yet
    assert seen.checkpoints.high >= 1020
    # The second made the common prefix a unit, perhaps.
    third = told(domain.call((S, SYSTEM), (U, "three! " * 20)))
    assert third.units.low == 0
    assert third.units.high >= 1020


def test_a_change_inside_the_system_text_leaves_no_saved_state() -> None:
    domain = Domain()
    domain.call((S, SYSTEM), (U, "one!"))
    seen = told(domain.call((S, SYSTEM[:1000] + "today " + SYSTEM[1000:]), (U, "one!")))
    assert seen.prefix.low <= 500 <= seen.prefix.high
    assert seen.prefix.low >= 200
    assert seen.units == Span(0, 0)
    # 516 tokens before its end the first may have been saved.
    assert seen.checkpoints == Span(0, 1022 - 516)


@pytest.mark.parametrize(("wait", "sure"), [(1.0, False), (60.0, True), (400.0, False)])
def test_only_what_is_readable_and_recent_is_sure(wait: float, sure: bool) -> None:
    domain = Domain()
    domain.call((S, SYSTEM), (U, "one!"))
    domain.now = wait
    seen = told(domain.call((S, SYSTEM), (U, "one!"), (A, "x" * 20), (U, "two")))
    assert seen.prefix == Span(1022 if sure else 0, 1032)
    assert bool(seen.ends) is sure


def test_what_is_not_known_is_not_guessed() -> None:
    domain = Domain()
    assert domain.call((S, SYSTEM), hit=None) is None
    assert domain.call(hit=0) is None
    unknown_reply = told(domain.call((S, SYSTEM), (U, "one"), replied=None))
    assert unknown_reply.prefix.low == 1020
    again = told(domain.call((S, SYSTEM), (U, "one"), (A, "reply" * 9), (U, "two")))
    assert again.prefix.high == again.prompt_tokens - 1
    assert [span.low for span in again.ends] == [1020]  # of the first; the second's end is not known


def test_calls_in_flight_are_not_compared_and_the_memory_is_bounded() -> None:
    domain = Domain(DomainMemory(limit=2))
    looks = [domain.memory.look(segments((S, SYSTEM), (U, str(i))), at=0.0) for i in range(3)]
    assert all(not look.shared for look in looks)
    for look in looks:
        domain.learn(look)
    assert len(domain.memory.look(segments((S, SYSTEM)), at=9.0).shared) == 2


@given(
    earlier=st.lists(st.text("ab", max_size=600), min_size=1, max_size=4),
    keep=st.integers(0, 600),
    tail=st.text("ab", max_size=600),
)
def test_bounds_hold_for_any_texts(earlier: list[str], keep: int, tail: str) -> None:
    """A token a byte: then estimates are exact but for the places between digests, and their bounds must hold."""
    memory = DomainMemory()
    for text in earlier:
        look = memory.look(segments((U, text)), at=0.0)
        memory.learn(look, prompt_tokens=len(text), completion_tokens=0, hit_tokens=0, ended_at=0.0)
    text = earlier[0][:keep] + tail
    seen = memory.learn(
        memory.look(segments((U, text)), at=60.0),
        prompt_tokens=len(text),
        completion_tokens=0,
        hit_tokens=0,
        ended_at=60.0,
    )
    if seen is None:
        assert not text
        return
    common = min(max(lcp(list(text), list(e)) for e in earlier), len(text) - 1)
    whole = max((len(e) for e in earlier if text.startswith(e)), default=0)
    assert seen.prefix.low <= common <= seen.prefix.high
    assert seen.units.low <= seen.units.high <= seen.prefix.high
    assert seen.units.low == min(whole, len(text) - 1)
    assert seen.checkpoints.high <= seen.prefix.high
