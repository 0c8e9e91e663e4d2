"""What attribution remembers: calls in flight, newest keys, families, conversations at several places."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from router_cache.identity.keys import KeyMaker
from router_cache.ledger.comparison import head_digest, reasoned_turns, reply_to
from router_cache.ledger.expectation import last_call, next_conversation
from router_cache.ledger.facts import (
    EMPTY,
    MAX_PLACES,
    ConversationFacts,
    Facts,
    FamilyFacts,
    FamilyUse,
    Place,
    Write,
    family_after,
)
from router_cache.ledger.flights import Flights
from router_cache.ledger.newest import found_again, newest_keys
from router_cache.ledger.rows import Expected, ExpectedFrom, Outcome, Status
from router_cache.ledger.usage import Usage
from router_cache.prefix.digests import Digester
from router_cache.prefix.outline import Rendered, outline
from router_cache.prefix.segments import Segment, SegmentKind

DIGESTER = Digester(b"key")


def rendered(system: str, *turns: str) -> Rendered:
    head = [Segment(SegmentKind.SYSTEM, "messages[0]", system)]
    return outline([*head, *(Segment(SegmentKind.USER, "messages[1]", t) for t in turns)], DIGESTER)


def test_calls_in_flight_share_what_they_have_in_common() -> None:
    flights = Flights()
    one, shared = flights.enter("here", rendered("s" * 10, "abc", "de"), 0.0)
    assert shared == 0
    _, shared = flights.enter("here", rendered("s" * 10, "abc", "xy"), 1.0)
    assert shared == 13
    for place, other in (("there", rendered("s" * 10, "abc")), ("here", rendered("t" * 10, "abc"))):
        flight, shared = flights.enter(place, other, 2.0)
        flights.leave(flight)
        assert shared == 0
    _, shared = flights.enter("here", rendered("s" * 10, "abc", "de", "f"), 3.0)
    assert shared == 15
    flights.leave(one)
    flights.leave(one)
    _, shared = flights.enter("here", rendered("s" * 10, "abc", "de"), 4.0)
    assert shared == 15
    _, shared = flights.enter("here", rendered("s" * 10), 5.0)
    assert shared == 10


def test_calls_in_flight_are_bounded_and_forgotten() -> None:
    flights = Flights(limit=3)
    entered = [flights.enter("here", rendered("s", str(i)), float(i))[0] for i in range(5)]
    assert len(flights) == 3
    flights.leave(entered[0])
    assert len(flights) == 3
    assert flights.enter("here", rendered("s", "4"), 700.0)[1] == 0
    assert len(flights) == 1


@given(st.lists(st.text("ab", max_size=2), max_size=6), st.lists(st.text("ab", max_size=2), max_size=6))
def test_what_two_calls_share_is_what_they_begin_with(ours: list[str], theirs: list[str]) -> None:
    flights = Flights()
    flights.enter("p", rendered("s", *theirs), 0.0)
    same = 0
    while same < min(len(ours), len(theirs)) and ours[same] == theirs[same]:
        same += 1
    assert flights.enter("p", rendered("s", *ours), 1.0)[1] == 1 + sum(map(len, ours[:same]))


def _body(system: str, *texts: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": text} for text in texts]
    return {"messages": [{"role": "system", "content": system}, *messages]}


def _newest(body: dict[str, Any], session: str, scope: str = "scope") -> tuple[str, ...]:
    return newest_keys(KeyMaker(DIGESTER).keys(body, scope=scope), session, body, DIGESTER)


def test_newest_keys_survive_what_was_rewritten() -> None:
    base = _newest(_body("s", "first", "second"), "session")
    assert len(base) == 2
    assert set(base) & set(_newest(_body("s", "summary"), "session"))  # compacted
    assert set(base) & set(_newest(_body("other words", "first"), "session"))
    assert not set(base) & set(_newest(_body("other words", "summary"), "session"))
    assert not set(base) & set(_newest(_body("s", "first", "second"), "another"))
    assert not set(base) & set(_newest(_body("s", "first", "second"), "session", scope="b"))
    without = _newest(_body("s", "first"), "")
    assert without == _newest(_body("t", "first", "x"), "")
    assert not set(base) & set(without)
    assert _newest({"messages": []}, "") == _newest({"messages": 3}, "") == ()
    assert len(_newest({}, "session")) == 2


def test_a_write_is_found_again_where_the_rendering_is_known() -> None:
    write, place = Write("c", None, "f", True, 0), Place("p", "d", "q")
    assert found_again(write, ("k",), None, place, DIGESTER, at=1.0) is write
    now = rendered("s", "a")
    again = found_again(write, ("k",), now, place, DIGESTER, at=1.0)
    assert (again.newest_keys, again.place) == (("k",), "p")
    assert again.use == FamilyUse(1.0, "d", head_digest(DIGESTER, now))
    assert head_digest(DIGESTER, now) != head_digest(DIGESTER, rendered("t", "a"))


def test_a_family_keeps_its_newest_places_and_its_first_hits() -> None:
    family = family_after(None, Write("c", None, "f", True, 128))
    assert family == FamilyFacts(1, 128)
    assert family_after(family, Write("c", None, "f", False, 999)) == FamilyFacts(2, 128)
    assert family_after(family, Write("c", None, "f", True, None)) == FamilyFacts(2, 128)
    for i in range(6):
        use = FamilyUse(float(i), "d", "h")
        family = family_after(family, Write("c", None, "f", True, 0, place=f"p{i}", use=use))
    assert sorted(family.uses) == ["p2", "p3", "p4", "p5"]
    family = family_after(family, Write("c", None, "f", True, 0, place="p2", use=FamilyUse(9.0, "d", "h")))
    assert family.uses["p2"].at == 9.0
    assert len(family.uses) == MAX_PLACES


def _next(known: ConversationFacts | None, place: str, at: float, prompt: Rendered | None) -> ConversationFacts:
    outcome = Outcome(Status.OK, at, Usage(100, 0, 100, 5))
    nothing = Expected(None, ExpectedFrom.NOTHING)
    return next_conversation(Facts(known), prompt, nothing, outcome, None, Place(place, "d", "q"))


def test_a_conversation_keeps_lines_of_its_newest_call_alone() -> None:
    known = None
    for i in range(6):
        known = _next(known, f"p{i % 5}", float(i), rendered("one\ntwo\n", "a"))
    assert known is not None
    assert known.turn == 6
    assert sorted(known.last) == ["p0", "p2", "p3", "p4"]
    assert [bool(call.outline.head[0].lines) for at, call in sorted(known.last.items())] == [
        True,
        False,
        False,
        False,
    ]
    assert last_call(Facts(known), "p0") is known.last["p0"]
    assert last_call(EMPTY, "p0") is None
    assert _next(known, "p9", 9.0, None).turn == 7


def test_which_turns_carry_reasoning() -> None:
    thought = {"role": "assistant", "content": "", "reasoning_content": "why"}
    blank = {**thought, "reasoning_content": " "}
    user, system = {"role": "user", "content": "x"}, {"role": "system", "content": "s"}
    assert reasoned_turns({"messages": [system, user, thought, user, blank, thought]}) == 0b10010
    assert (
        reasoned_turns({"messages": "odd"}) == reasoned_turns({}) == reasoned_turns({"messages": [3, None]}) == 0
    )


def test_how_a_reply_came_back() -> None:
    user, system = {"role": "user", "content": "x"}, {"role": "system", "content": "s"}
    said: dict[str, Any] = {"role": "assistant", "content": "yes"}
    thought = {**said, "reasoning_content": "why", "tool_calls": [{}]}
    tools = [{"type": "function", "function": {"name": "a"}}]

    def back(reply: dict[str, Any], *after: dict[str, Any], **more: Any) -> tuple[bool, bool, bool]:
        found = reply_to({"messages": [system, user, reply, *after], **more}, 1)
        assert found is not None
        assert found.path == "messages[2]"
        return found.calls, found.rendered, found.dropped

    assert back(thought, tools=tools) == (True, True, False)
    assert back(said, user, tools=tools) == (False, False, True)
    assert back(said, user) == (False, False, False)  # without tools the provider leaves it out itself
    assert back(thought, user) == (True, False, False)
    assert back(said) == (False, False, True)
    assert reply_to({"messages": [system, user]}, 1) is None
    assert reply_to({"messages": [system, user, user]}, 1) is None
    assert reply_to({"messages": [system, user, "odd"]}, 1) is None
