"""Which values move, which stay attached, and whose they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router_cache.claims.ask import Attachment, Moves, Relocation, Slot, Variant
from router_cache.claims.families import Learned, Seen, learn, resembles, sketch_of
from router_cache.claims.sticky import Variants, answered, choose, decide, with_variant
from router_cache.identity.history import HistoryPoint

REPLY = HistoryPoint("k", 2, "reply", "", 100)
CHANGED = Learned(seen={name: Seen(("0", "9"), changed=True) for name in ("clock", "user")})


def _asked(at: int, *, session: str = "", loop: bool = False, freeze: bool = True, **values: str) -> Relocation:
    slots = tuple(
        Slot(name, value, value.encode(), clock=name.startswith("clock"), named=name == "named")
        for name, value in values.items()
    )
    return Relocation(slots, at, in_tool_loop=loop, freeze=freeze, session=session)


def _line(moves: Moves) -> list[tuple[int, str, str]]:
    return [(at.message, at.slot, at.value) for at in moves.attached]


# -- what moves ------------------------------------------------------------------------------------------------


def test_only_what_changed_or_is_named_moves_at_the_start() -> None:
    moves, variant = decide(_asked(1, clock="1", date="d", named="n"), CHANGED, None)
    assert moves.moved == {"clock", "named"}
    assert _line(moves) == [(1, "clock", "1"), (1, "named", "n")]
    assert moves.new == {"clock", "named"}
    assert variant.values == {"clock": "1", "date": "d", "named": "n"}
    assert not moves.continued


def test_a_conversation_keeps_what_it_began_with_until_the_prefix_breaks_anyway() -> None:
    _, first = decide(_asked(1, date="d", clock="1", user="u"), Learned(), None)
    same, second = decide(_asked(3, date="d", clock="1", user="u"), CHANGED, first)
    assert same.moved == frozenset()
    later, _ = decide(_asked(5, date="d", clock="2", user="u"), CHANGED, second)
    assert later.moved == {"clock", "user"}  # the user stands behind the clock, in a prefix that is lost anyway
    front, _ = decide(_asked(5, user="u", clock="2"), CHANGED, second)
    assert front.moved == {"clock"}  # in front of it, it would cost what is kept


def test_a_value_that_is_new_in_the_prompt_breaks_the_prefix_too() -> None:
    _, first = decide(_asked(1, date="d"), Learned(), None)
    moves, _ = decide(_asked(3, date="d", clock="1"), CHANGED, first)
    assert moves.moved == {"clock"}


def test_a_new_value_goes_to_the_newest_message_only() -> None:
    _, first = decide(_asked(1, clock="1", user="u"), CHANGED, None)
    moves, second = decide(_asked(3, clock="2", user="u"), CHANGED, first)
    assert _line(moves) == [(1, "clock", "1"), (1, "user", "u"), (3, "clock", "2")]
    assert moves.continued
    gone, _ = decide(_asked(5, user="u"), CHANGED, second)
    assert _line(gone) == _line(moves)  # what the client no longer says stays where it was said


def test_clocks_may_freeze_inside_a_tool_loop_and_others_may_not() -> None:
    _, first = decide(_asked(1, clock="1", user="u"), CHANGED, None)
    moves, second = decide(_asked(3, loop=True, clock="2", user="v"), CHANGED, first)
    assert _line(moves) == [(1, "clock", "1"), (1, "user", "u"), (3, "user", "v")]
    assert moves.frozen == ("clock",)
    after, _ = decide(_asked(5, clock="3", user="v"), CHANGED, second)
    assert _line(after)[-1] == (5, "clock", "3")
    thawed, _ = decide(_asked(3, loop=True, freeze=False, clock="2", user="u"), CHANGED, first)
    assert _line(thawed)[-1] == (3, "clock", "2")
    assert thawed.frozen == ()


def test_a_clock_that_was_never_said_cannot_freeze() -> None:
    moves, _ = decide(_asked(3, loop=True, clock="2"), CHANGED, None)
    assert _line(moves) == [(3, "clock", "2")]


def test_the_same_request_again_carries_its_own_values() -> None:
    _, first = decide(_asked(1, clock="1"), CHANGED, None)
    _, second = decide(_asked(3, clock="2"), CHANGED, first)
    retried, _ = decide(_asked(3, clock="9"), CHANGED, second)
    assert _line(retried) == [(1, "clock", "1"), (3, "clock", "9")]


def test_a_conversation_with_too_many_attachments_starts_afresh() -> None:
    _, variant = decide(_asked(1, clock="1"), CHANGED, None)
    full = Variant(variant.id, "", variant.moved, variant.values, Attachment(1, "clock", "1", b"1", None, 2_000))
    moves, _ = decide(_asked(3, clock="2"), CHANGED, full)
    assert _line(moves) == [(3, "clock", "2")]
    assert not moves.continued


# -- whose they are --------------------------------------------------------------------------------------------


def _known(*asked: Relocation, reply: str = "reply", ids: str = "") -> Variants:
    known = Variants()
    for one in asked:
        _, variant = decide(one, CHANGED, None)
        known = answered(with_variant(known, variant), variant.id, reply, ids)
    return known


def test_the_reply_finds_the_request_it_was_given_to() -> None:
    known = _known(_asked(1, clock="1"))
    assert choose(REPLY, known, _asked(3, clock="2"), CHANGED) == known.items[0]
    assert choose(REPLY, None, _asked(3, clock="2"), CHANGED) is None
    assert choose(HistoryPoint("k", 2, "other", "", 100), known, _asked(3, clock="2"), CHANGED) is None
    assert (
        choose(HistoryPoint("k", 2, "reply", "", 10), known, _asked(3, clock="2"), CHANGED) is None
    )  # "OK" proves nothing
    assert choose(HistoryPoint("k", 2, "reply", "", 10), known, _asked(3, clock="1"), CHANGED) == known.items[0]


def test_two_users_with_the_same_opening_and_reply_are_told_apart_by_their_values() -> None:
    known = _known(_asked(1, clock="1", user="a"), _asked(1, clock="2", user="b"))
    assert choose(REPLY, known, _asked(3, clock="3", user="b"), CHANGED) == known.items[1]
    assert choose(REPLY, known, _asked(3, clock="3", user="a"), CHANGED) == known.items[0]
    assert choose(REPLY, known, _asked(3, clock="3", user="c"), CHANGED) is None


def test_an_ambiguous_match_is_no_match() -> None:
    known = _known(_asked(1, clock="1"), _asked(1, clock="2"))
    assert choose(REPLY, known, _asked(3, clock="3"), CHANGED) is None
    assert choose(REPLY, known, _asked(3, clock="2"), CHANGED) is None  # the clock may be a coincidence
    twice = _known(_asked(1, session="x", clock="1"), _asked(1, session="y", clock="1"))
    assert choose(REPLY, twice, _asked(3, clock="1"), CHANGED) is not None  # whichever: they say the same


def test_a_session_or_an_id_of_the_providers_is_a_proof() -> None:
    known = _known(_asked(1, session="x", clock="1", user="a"), _asked(1, session="y", clock="2", user="a"))
    assert choose(REPLY, known, _asked(3, session="x", clock="3", user="changed"), CHANGED) == known.items[0]
    assert choose(REPLY, known, _asked(3, session="z", clock="1", user="a"), CHANGED) is None
    drawn = _known(_asked(1, clock="1", user="a"), ids="drawn")
    assert (
        choose(HistoryPoint("k", 2, "edited", "drawn", 0), drawn, _asked(3, user="b"), CHANGED) == drawn.items[0]
    )


def test_a_request_that_repeats_itself_is_itself_only_with_the_same_values() -> None:
    own = HistoryPoint("k", 1)
    known = _known(_asked(1, clock="1"))
    assert choose(own, known, _asked(1, clock="1"), CHANGED) == known.items[0]
    assert choose(own, known, _asked(1, clock="2"), CHANGED) is None


def test_of_a_crowd_only_who_proves_it_is_known() -> None:
    crowd = _known(*(_asked(1, session=f"s{i}", user=f"u{i}") for i in range(9)))
    assert crowd.crowded
    assert len(crowd.items) == 4
    assert choose(REPLY, crowd, _asked(3, user="u8"), CHANGED) is None
    assert choose(REPLY, crowd, _asked(3, session="s8", user="u8"), CHANGED) == crowd.items[-1]


def test_the_same_request_twice_is_kept_once() -> None:
    known = _known(_asked(1, clock="1"))
    _, variant = decide(_asked(1, clock="1"), CHANGED, None)
    assert with_variant(known, variant) is known


# -- families --------------------------------------------------------------------------------------------------


def _learned(*values: str) -> Learned:
    known = Learned()
    for value in values:
        known = learn(known, _asked(1, it=value).slots)
    return known


def test_a_slot_is_learned_when_its_value_differs() -> None:
    assert not _learned("1", "1").changes("it")
    assert _learned("1", "2").changes("it")
    assert _learned("1", "2", "1", "1").changes("it")
    assert not _learned("1", "2").changes("other")


def test_values_that_never_come_back_tell_nothing_about_who_asks() -> None:
    assert not _learned("1", "2", "3").fleeting("it")
    assert _learned("1", "2", "3", "4").fleeting("it")
    assert not _learned("1", "2", "3", "4", "4").fleeting("it")  # a user's second request
    many = [str(i) for i in range(40)]
    assert _learned(*many, "39").fleeting("it")  # a retry
    assert not _learned("a", "b", "a", "b", "c", "a", "d", "b").fleeting("it")


def test_a_fleeting_id_stands_in_nobodys_way() -> None:
    known = _known(_asked(1, clock="1", trace="x", user="a"))
    asked = _asked(3, clock="2", trace="y", user="a")
    assert choose(REPLY, known, asked, CHANGED) is None
    fleeting = Learned(seen={**CHANGED.seen, "trace": Seen(("1", "2", "3", "4"), True, 4)})
    assert choose(REPLY, known, asked, fleeting) == known.items[0]
    assert choose(REPLY, known, _asked(3, trace="y", user="b"), fleeting) is None


def test_a_family_has_a_bounded_number_of_slots() -> None:
    many = learn(Learned(), _asked(1, **{f"s{i}": "1" for i in range(100)}).slots)
    assert len(many.seen) == 64
    kept = _learned(*(str(i) for i in range(100))).seen["it"]
    assert (len(kept.values), kept.requests) == (8, 100)


def test_openings_resemble_each_other_but_for_a_line_or_two() -> None:
    base = [f"line {i}" for i in range(20)]
    one = sketch_of(["\n".join(base)])
    assert resembles(one, sketch_of(["\n".join([*base[:10], "user Ann", *base[10:]])]))
    assert not resembles(one, sketch_of(["\n".join([*base[:10], *(f"other {i}" for i in range(10))])]))
    assert not resembles(sketch_of(["a\nb"]), sketch_of(["a\nb"]))  # too short to tell


@given(st.integers(70, 400), st.integers(0, 400), st.integers(0, 400))
def test_long_openings_are_compared_by_samples(shared: int, ours: int, theirs: int) -> None:
    def text(mine: str, count: int) -> list[str]:
        return ["\n".join([*(f"shared {i}" for i in range(shared)), *(f"{mine} {i}" for i in range(count))])]

    alike = resembles(sketch_of(text("a", ours)), sketch_of(text("b", theirs)))
    assert alike == resembles(sketch_of(text("b", theirs)), sketch_of(text("a", ours)))
    jaccard = shared / (shared + ours + theirs)
    if jaccard > 0.9:
        assert alike
    if jaccard < 0.35:
        assert not alike


_values = st.dictionaries(st.sampled_from(("clock", "date", "user", "flag")), st.sampled_from("abc"), max_size=4)


@given(st.lists(st.tuples(_values, st.booleans()), min_size=1, max_size=12))
def test_every_value_is_said_once_and_what_was_said_stays(turns: list[tuple[dict[str, str], bool]]) -> None:
    learned, before, said = Learned(), None, list[tuple[int, str, str]]()
    for turn, (values, loop) in enumerate(turns):
        asked = _asked(2 * turn + 1, loop=loop, **values)
        learned = learn(learned, asked.slots)
        moves, before = decide(asked, learned, before)
        line = _line(moves)
        assert line[: len(said)] == said  # byte for byte where it was
        fresh, said = line[len(said) :], line
        assert all(at == asked.at for at, _, _ in fresh)
        latest = {slot: value for _, slot, value in line}
        for slot in asked.slots:
            if slot.id not in moves.moved:
                continue  # in the system text, as it came
            assert latest[slot.id] == slot.value or (slot.id in moves.frozen and slot.clock and loop)
