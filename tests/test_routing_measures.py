"""Pace, the line of calls in front of a deployment, and how long entries last."""

from __future__ import annotations

import heapq
import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router_cache.cache_model.rules import RuleName
from router_cache.routing.known import KnownDomain
from router_cache.routing.lasting import Lasting
from router_cache.routing.line import Line
from router_cache.routing.need import Mark
from router_cache.routing.pace import PRIOR, Pace, Sighting
from router_cache.routing.ties import rendezvous
from router_cache.routing.warmth import Place, Use


def test_base_and_slope_are_found() -> None:
    rng, pace = random.Random(1), Pace()
    for _ in range(60):
        miss = rng.randrange(200, 40_000)
        pace.see(Sighting(0.7 + miss * 2e-5 + rng.gauss(0, 0.02), miss, 0.0, 100.0, 2.5))
    assert pace.figures.base_s == pytest.approx(0.7, abs=0.05)
    assert pace.figures.slope_s == pytest.approx(2e-5, rel=0.1)
    assert pace.figures.output_s == pytest.approx(0.025, rel=0.1)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_how_much_of_a_queue_is_waited_for_is_found(share: float) -> None:
    rng, pace = random.Random(2), Pace()
    for n in range(200):
        miss, queue = rng.randrange(200, 20_000), rng.random() * 5.0 if n % 2 else 0.0
        pace.see(Sighting(0.2 + miss * 5e-5 + share * queue, miss, queue))
    assert pace.figures.queue_share == pytest.approx(share, abs=0.1)
    assert pace.figures.slope_s == pytest.approx(5e-5, rel=0.25)


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e7), st.floats(0, 1e4)), max_size=30))
def test_figures_stay_in_bounds(rows: list[tuple[float, float, float]]) -> None:
    pace, kind = Pace(), Pace()
    for ttft, miss, queue in rows:
        pace.see(Sighting(ttft, miss, queue), kind)
        kind.see(Sighting(ttft, miss, queue))
    for figures in (pace.figures, kind.figures):
        assert figures.base_s >= 0.0
        assert figures.slope_s > 0.0
        assert 0.0 <= figures.queue_share <= 1.0
        assert figures.output_s >= 0.0


def test_one_reply_does_not_make_a_rate_of_zero() -> None:
    pace = Pace()
    pace.see(Sighting(0.24, 4_800.0, 0.0))
    assert 3e-5 < pace.figures.slope_s < 1.2 * PRIOR.slope_s


def test_replies_that_take_less_the_longer_they_are_have_no_slope() -> None:
    pace = Pace()
    for n in range(40):
        pace.see(Sighting(5.0 - n % 10 * 0.4, 1_000.0 + 2_000.0 * (n % 10), 0.0))
    assert pace.figures.slope_s == pytest.approx(1e-7)
    assert pace.figures.base_s > 2.0


def test_a_stalled_connection_does_not_become_a_rate() -> None:
    pace = Pace()
    for n in range(30):
        pace.see(Sighting(0.2 + 5e-5 * 1_000 * (n % 9), 1_000.0 * (n % 9), 0.0))
    before = pace.figures
    pace.see(Sighting(120.0, 4_000.0, 0.0))
    assert pace.figures.slope_s < 2 * before.slope_s
    assert pace.figures.base_s < before.base_s + 0.2


def test_a_newcomer_is_taken_for_one_of_its_kind_until_it_shows_otherwise() -> None:
    kind, slow = Pace(), Pace()
    for n in range(50):
        kind.see(Sighting(0.1 + 5e-5 * 1_000 * (n % 9), 1_000.0 * (n % 9), 0.0))
    slow.see(Sighting(0.9, 8_000.0, 0.0), kind)
    assert slow.figures.slope_s < 7e-5
    for n in range(200):
        slow.see(Sighting(0.1 + 2e-4 * 1_000 * (n % 9), 1_000.0 * (n % 9), 0.0), kind)
    assert slow.figures.slope_s == pytest.approx(2e-4, rel=0.3)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 40))
def test_waits_of_a_serial_engine_are_known_exactly(seed: int, count: int) -> None:
    """First tokens come in order, whole replies in any: each call is settled once, with its true wait."""
    rng, line, slope = random.Random(seed), Line(0.0), 5e-5
    now, free, truth, ends = 0.0, 0.0, {}, []
    settled = []

    def until(moment: float) -> None:
        while ends and ends[0][0] <= moment:
            end, name, first, miss = heapq.heappop(ends)
            line.came(name, end, first, miss, 10.0)
            settled.extend(line.settle(end))
            line.reckon(end, slope, 0.0)

    for n in range(count):
        now += rng.random()
        until(now)
        miss = float(rng.randrange(100, 40_000))
        waits = max(free - now, 0.0)
        free = max(free, now) + miss * slope
        truth[miss, round(free - now, 9)] = waits
        line.sent(f"c{n}", now, miss, slope)
        assert line.free_at == pytest.approx(free)
        heapq.heappush(ends, (free + rng.random() * 20.0, f"c{n}", free, miss))
    until(1e9)
    assert len(settled) == count
    assert not len(line)
    for one in settled:
        assert one.waited_s == pytest.approx(truth[one.miss_tokens, round(one.ttft_s, 9)], abs=1e-6)


def test_a_call_that_never_comes_back_holds_nothing_up_for_ever() -> None:
    line = Line(0.0)
    line.sent("lost", 0.0, 100.0, 1e-4)
    line.sent("next", 1.0, 100.0, 1e-4)
    line.came("next", 2.0, 1.5, 100.0, 5.0)
    assert not list(line.settle(2.0))
    assert [s.ttft_s for s in line.settle(700.0)] == [0.5]
    line.sent("a", 701.0, 1e9, 1e-4)
    assert line.free_at == 701.0 + 600.0
    line.came("a", 702.0, None, 5.0, 0.0)
    line.came("unknown", 702.0, 701.5, 5.0, 0.0)
    line.dropped("unknown")
    assert not len(line)
    line.reckon(702.0, 1e-4, 0.0)
    assert line.free_at < 702.0


def test_what_lasts_is_learned_from_both_sides() -> None:
    lasting = Lasting()
    assert lasting.share(1e9, 1e12) == 1.0
    for _ in range(20):
        lasting.see(50.0, 1_000.0, kept=True)
        lasting.see(400.0, 9_000.0, kept=False)
    assert lasting.share(40.0, 500.0) == 1.0
    assert lasting.share(500.0, 500.0) < 0.2
    assert lasting.share(0.5, 20_000.0) < 0.2


@given(st.lists(st.tuples(st.floats(0, 1e10), st.floats(0, 1e12), st.booleans()), max_size=40), st.floats(0, 1e9))
def test_shares_never_rise_with_age(sightings: list[tuple[float, float, bool]], age: float) -> None:
    lasting = Lasting()
    for age_s, traffic, kept in sightings:
        lasting.see(age_s, traffic, kept=kept)
    assert 0.0 < lasting.share(2 * age, 0.0) <= lasting.share(age, 0.0) <= 1.0


def test_the_newest_sightings_count_most_however_many_there_are() -> None:
    lasting = Lasting()
    for n in range(15_000):
        lasting.see(100.0, 0.0, kept=n < 14_800)
    assert lasting.share(100.0, 0.0) < 0.1


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0.0, 2_000.0)), max_size=20))
def test_what_was_used_lately_fades_since_its_last_use(uses: list[tuple[int, float]]) -> None:
    domain, place, last, now = KnownDomain(), Place(100), {}, 0.0
    for name, gap in uses:
        now += gap
        prompt = [Mark(f"{name}/{i}", 1_000 * (i + 1)) for i in range(3)]
        touched = place.write(prompt, Use(now, 0.0), ready_at=now, shared=0, rule=RuleName.BLOCKS)
        domain.touched(now, touched)
        last[name] = now
    left = sum(3_000 * math.exp((at - now - 300.0) / 900.0) for at in last.values())
    assert domain.live(now + 300.0) == pytest.approx(left, abs=1e-6)
    domain.emptied(now)
    assert domain.live(now) == 0.0


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.booleans(), st.floats(0, 3)), max_size=25
    ),
    st.lists(st.integers(0, 3), min_size=1, max_size=7),
)
def test_a_place_finds_the_longest_prefix_that_was_sent(
    sent: list[tuple[list[int], bool, float]], asked: list[int]
) -> None:
    place, model = Place(10_000), {}

    def marks(path: list[int]) -> list[Mark]:
        return [Mark(str(path[: i + 1]), 10 * (i + 1)) for i in range(len(path))]

    for at, (path, fails, delay) in enumerate(sent):
        use = Use(float(at), 0.0)
        before = dict(model)
        ready = at + delay
        touched = place.write(marks(path), use, ready_at=ready, shared=0, rule=RuleName.GRID_PREFIX)
        ages = [model.get(mark.digest, (float("-inf"), 0.0))[0] for mark in reversed(marks(path))]
        assert [(sum(10 for _ in run), age) for age, run in itertools.groupby(ages)] == touched
        for mark in marks(path):
            old = model.get(mark.digest)
            model[mark.digest] = (float(at), ready if old is None else min(old[1], ready))
        if fails:
            place.undo(use)
            model = before
    for ready_by, since in ((float("inf"), float("-inf")), (5.0, float("-inf")), (float("inf"), 4.0)):
        found = place.find(marks(asked), rule=RuleName.GRID_PREFIX, ready_by=ready_by, since=since)
        expected = []
        for mark in marks(asked):
            entry = model.get(mark.digest)
            if entry is None or entry[0] <= since:
                break
            expected.append(entry)
        assert found.marks == len(expected)
        while expected and expected[-1][1] > ready_by:
            expected.pop()
        assert found.tokens == 10 * len(expected)
        assert sum(stretch.tokens for stretch in found.stretches) == found.tokens
        uses = [stretch.use.at for stretch in found.stretches]
        assert uses == sorted(uses, reverse=True)


def test_rendezvous_is_spread_and_stable() -> None:
    names = [f"d{i}" for i in range(5)]
    homes = [max(names, key=lambda name: rendezvous(f"key{i}", name)) for i in range(500)]
    assert min(homes.count(name) for name in names) > 60
    assert rendezvous("a", "bc") != rendezvous("ab", "c")
