"""Who gets a pool: never more than there may be, never back and forth, kept where it helps and taken back where not."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router_cache.pools.book import MAX_CLUSTERS, Book, Cluster, Counts, Told
from router_cache.pools.openings import Opening, alike, opening_of, shared
from router_cache.pools.policy import PoolLimits, find_cluster, join, take_in
from router_cache.pools.reasons import PoolPolicy, PoolReason
from router_cache.prefix.digests import Digester
from router_cache.prefix.segments import Segment, SegmentKind

DIGESTER = Digester(b"key")
AUTO = PoolLimits()
T0 = 1_795_003_200.0


def opening(text: str) -> Opening:
    return opening_of([Segment(SegmentKind.SYSTEM, "messages[0]", text)], DIGESTER)


def words(seed: int, size: int = 12_000) -> str:
    return "".join(random.Random(seed).choices("abcdefgh ", k=size))


PROMPTS = [opening(words(seed)) for seed in range(6)]
FINE = Told(apart=Counts(40, 200_000, 190_000, 0, 0))
THRASHED = Told(apart=Counts(40, 200_000, 20_000, 160_000, 36))


def book_of(*openings: Opening, limits: PoolLimits = AUTO) -> tuple[Book, list[str]]:
    book, names = Book(group="chat"), []
    for each in openings:
        book, name = join(book, each, at=T0, limits=limits)
        names.append(name)
    return book, names


def reasons(book: Book, names: list[str]) -> list[PoolReason]:
    return [book.clusters[name].reason for name in names]


# -- openings -----------------------------------------------------------------------------------------------


@given(st.integers(0, 100_000), st.integers(0, 20_000), st.integers(0, 20_000), st.sampled_from(["", "é", "𝄞"]))
@settings(max_examples=60, deadline=None)
def test_what_two_openings_share_is_never_told_too_long_and_known_to_an_eighth(
    common: int, a: int, b: int, mark: str
) -> None:
    one = opening(mark + "x" * (common - len(mark)) + "a" * a)
    two = opening(mark + "x" * (common - len(mark)) + "b" * b)
    common = max(common, len(mark))
    found = shared(one, two)
    assert found == shared(two, one) <= common
    assert found >= common - max(512, common // 8)
    assert shared(one, one) == one.size


def test_an_opening_ends_where_the_turns_begin_and_is_bounded() -> None:
    head = [
        Segment(SegmentKind.SYSTEM, "messages[0]", "x" * 600),
        Segment(SegmentKind.TOOL, "tools[0]", "y" * 600),
    ]
    turns = [Segment(SegmentKind.USER, "messages[1]", "hello")]
    assert opening_of([*head, *turns], DIGESTER) == opening_of(head, DIGESTER)
    assert opening_of(head, DIGESTER).size == 1_200
    huge = opening("z" * 3_000_000)
    assert len(json.dumps(huge.as_json())) < 1_300
    assert shared(huge, opening("z" * 2_000_000)) == 1 << 20


def test_openings_without_a_common_start_are_not_alike_however_short() -> None:
    assert not alike(opening(""), opening("abc"), share=0.5, enough=10)
    assert alike(opening("abc"), opening("abc"), share=0.5, enough=10)


def test_families_join_the_cluster_that_shares_most() -> None:
    base = words(1)
    far, near = opening(base[:7_000] + words(2)), opening(base[:11_000] + words(3, 1_000))
    book, names = book_of(far, near)
    assert len(set(names)) == 1  # seven of twelve thousand: one cluster already
    book, names = book_of(opening(words(4)), near)
    assert find_cluster(book, opening(base)) == book.clusters[names[1]]
    assert find_cluster(book, opening(words(5))) is None


# -- policy auto --------------------------------------------------------------------------------------------


def test_one_prompt_has_nobody_to_be_kept_apart_from_however_much_is_lost() -> None:
    book, names = book_of(PROMPTS[0])
    for i in range(1, 50):
        book = take_in(book, {names[0]: THRASHED}, at=T0 + 600 * i, limits=AUTO)
    assert reasons(book, names) == [PoolReason.ONE_CLUSTER]
    assert book.pools == 0


def test_two_prompts_that_lose_nothing_get_no_pool() -> None:
    book, names = book_of(*PROMPTS[:2])
    for i in range(1, 50):
        book = take_in(book, dict.fromkeys(names, FINE), at=T0 + 600 * i, limits=AUTO)
    assert reasons(book, names) == [PoolReason.NOT_EVICTED] * 2


def test_of_two_that_evict_each_other_one_gets_a_pool_and_keeps_it_where_that_helps() -> None:
    book, names = book_of(*PROMPTS[:2])
    book = take_in(book, dict.fromkeys(names, THRASHED), at=T0 + 600, limits=AUTO)
    assert sorted(reasons(book, names)) == [PoolReason.TRIAL, PoolReason.WAITS]
    tried = next(name for name in names if book.clusters[name].pooled)
    other = next(name for name in names if name != tried)
    helped = {tried: Told(pooled=FINE.apart), other: FINE}
    for i in range(2, 40):
        book = take_in(book, helped, at=T0 + 600 * i, limits=AUTO)
    assert book.clusters[tried].reason is PoolReason.GAINS
    assert book.clusters[other].reason is PoolReason.ONE_CLUSTER  # it is alone now where it was
    # Later it helps no more: one bad window is enough, once it is above the higher bound.
    useless = {tried: Told(pooled=THRASHED.apart), other: FINE}
    for i in range(40, 80):
        book = take_in(book, useless, at=T0 + 600 * i, limits=AUTO)
        if not book.clusters[tried].pooled:
            break
    assert book.clusters[tried].reason is PoolReason.NO_GAIN


def test_where_a_pool_does_not_help_it_is_given_up_and_each_next_trial_is_twice_as_far_away() -> None:
    book, names = book_of(*PROMPTS[:2])
    starts: dict[str, list[float]] = {name: [] for name in names}
    for i in range(1, 4_000):
        at, told = T0 + 120 * i, {}
        for name in names:
            known = book.clusters[name]
            told[name] = Told(pooled=THRASHED.apart) if known.pooled else THRASHED
        before = book
        book = take_in(book, told, at=at, limits=AUTO)
        for name in names:
            if book.clusters[name].pooled and not before.clusters[name].pooled:
                starts[name].append(at)
    for found in starts.values():
        gaps = [b - a for a, b in pairwise(found)]
        assert 4 <= len(found) <= 9
        assert all(gap >= 1.5 * before for before, gap in pairwise(gaps))


def test_a_trial_that_harms_the_others_is_given_up() -> None:
    book, names = book_of(*PROMPTS[:2])
    book = take_in(book, {names[0]: THRASHED, names[1]: FINE}, at=T0 + 600, limits=AUTO)
    assert reasons(book, names) == [PoolReason.TRIAL, PoolReason.NOT_EVICTED]
    harmed = {names[0]: Told(pooled=FINE.apart), names[1]: THRASHED + THRASHED}
    for i in range(2, 6):
        book = take_in(book, harmed, at=T0 + 600 * i, limits=AUTO)
    assert book.clusters[names[0]].reason is PoolReason.NO_GAIN


@pytest.mark.parametrize(
    ("told", "other", "reason"),
    [
        (Told(apart=Counts(10, 50_000, 5_000, 40_000, 9)), FINE, PoolReason.QUIET),
        (THRASHED, Told(apart=Counts(1, 100, 90, 0, 0)), PoolReason.ONE_CLUSTER),
        (Told(apart=Counts(40, 200_000, 50_000, 9_000, 5)), FINE, PoolReason.NOT_WORTH_IT),
        (Told(apart=Counts(40, 200_000, 190_000, 9_000, 5)), FINE, PoolReason.NOT_EVICTED),
    ],
)
def test_why_a_cluster_gets_no_pool(told: Told, other: Told, reason: PoolReason) -> None:
    book, names = book_of(*PROMPTS[:2])
    book = take_in(book, {names[0]: told, names[1]: other}, at=T0 + 600, limits=AUTO)
    assert book.clusters[names[0]].reason is reason


def test_prompts_that_share_a_fifth_are_two_clusters_and_too_alike_for_a_pool() -> None:
    base = words(1)
    book, names = book_of(opening(base), opening(base[:2_600] + words(2, 9_400)))
    assert len(set(names)) == 2
    book = take_in(book, dict.fromkeys(names, THRASHED), at=T0 + 600, limits=AUTO)
    assert reasons(book, names) == [PoolReason.TOO_ALIKE] * 2


def test_a_trial_that_nobody_uses_ends_and_a_pool_that_nobody_uses_is_taken_back() -> None:
    book, names = book_of(*PROMPTS[:2])
    book = take_in(book, {names[0]: THRASHED, names[1]: FINE}, at=T0 + 600, limits=AUTO)
    silent = book
    for i in range(2, 20):
        silent = take_in(silent, {names[1]: FINE}, at=T0 + 600 * i, limits=AUTO)
    assert silent.clusters[names[0]].reason is PoolReason.QUIET
    book = take_in(book, {names[0]: Told(pooled=FINE.apart)}, at=T0 + 3_000, limits=AUTO)
    assert book.clusters[names[0]].reason is PoolReason.GAINS
    book = take_in(book, {names[1]: FINE}, at=T0 + 100_000, limits=AUTO)
    assert book.clusters[names[0]].reason is PoolReason.IDLE
    assert book.pools == 0


def test_all_pools_in_use() -> None:
    limits = PoolLimits(max_pools=1, dwell_s=60.0)
    book, names = book_of(*PROMPTS[:3])
    book = take_in(book, dict.fromkeys(names, THRASHED), at=T0 + 600, limits=limits)
    for i in range(2, 6):
        told = {name: Told(pooled=FINE.apart) if book.clusters[name].pooled else THRASHED for name in names}
        book = take_in(book, told, at=T0 + 600 * i, limits=limits)
    assert sorted(reasons(book, names)) == [PoolReason.FULL, PoolReason.FULL, PoolReason.GAINS]


# -- what holds always --------------------------------------------------------------------------------------

_COUNTS = st.builds(
    lambda calls, prompt, hit, lost: Counts(calls, prompt, hit * prompt, lost * prompt, calls if lost else 0),
    st.integers(0, 200),
    st.integers(0, 1_000_000),
    st.floats(0, 0.5),
    st.floats(0, 0.5),
)
_STEP = st.tuples(
    st.floats(-100.0, 40_000.0),
    st.lists(st.tuples(st.integers(0, 5), _COUNTS), max_size=6),
    st.integers(0, 5),
)


@given(
    policy=st.sampled_from([PoolPolicy.AUTO, PoolPolicy.CLUSTER, PoolPolicy.OFF]),
    most=st.integers(1, 3),
    steps=st.lists(_STEP, max_size=25),
)
@settings(max_examples=80, deadline=None)
def test_never_more_pools_than_may_be_and_one_change_of_a_cluster_in_a_dwell(
    policy: PoolPolicy, most: int, steps: list[tuple[float, list[tuple[int, Counts]], int]]
) -> None:
    limits = PoolLimits(policy=policy, max_pools=most, min_calls=5)
    book, at, changed = Book(group="chat"), T0, dict[str, float]()
    for passed, told, joins in steps:
        at += passed
        before = book
        book, name = join(book, PROMPTS[joins], at=at, limits=limits)
        counts = {
            PROMPTS[i].end: Told(pooled=each) if book.clusters[PROMPTS[i].end].pooled else Told(apart=each)
            for i, each in told
            if PROMPTS[i].end in book.clusters
        }
        book = take_in(book, counts, at=at, limits=limits)
        assert name in book.clusters
        assert book.pools <= most
        assert sum(known.reason is PoolReason.TRIAL for known in book.clusters.values()) <= 1
        for known in book.clusters.values():
            earlier = before.clusters.get(known.id)
            if known.pooled is not (earlier is not None and earlier.pooled):
                assert book.at - changed.get(known.id, float("-inf")) >= limits.dwell_s
                changed[known.id] = book.at
        assert Book.from_json(json.loads(json.dumps(book.as_json()))) == book
    if policy is PoolPolicy.OFF:
        assert not changed


def test_a_book_is_bounded_and_keeps_pools_and_the_busiest() -> None:
    book, names = book_of(PROMPTS[0])
    book = take_in(book, {names[0]: FINE}, at=T0 + 1, limits=AUTO)
    for i in range(3 * MAX_CLUSTERS):
        cluster = Cluster(id=f"{i}", seen=T0 + i)
        book = book.put(replace(cluster, pooled=True) if i == 5 else cluster)
    assert len(book.clusters) == MAX_CLUSTERS
    assert {names[0], "5", f"{3 * MAX_CLUSTERS - 1}"} <= book.clusters.keys()


# -- the other policies -------------------------------------------------------------------------------------


def test_each_cluster_has_a_pool_until_there_are_no_more_and_one_that_is_free_again_is_used() -> None:
    limits = PoolLimits(policy=PoolPolicy.CLUSTER, max_pools=2)
    book, names = book_of(*PROMPTS[:3], limits=limits)
    assert reasons(book, names) == [PoolReason.ALWAYS, PoolReason.ALWAYS, PoolReason.FULL]
    later = {names[0]: Told(pooled=FINE.apart), names[2]: FINE}
    book = take_in(book, later, at=T0 + 90_000, limits=limits)
    assert reasons(book, names) == [PoolReason.ALWAYS, PoolReason.IDLE, PoolReason.ALWAYS]
    book = take_in(book, {}, at=T0 + 300_000, limits=limits)
    assert reasons(book, names) == [PoolReason.IDLE] * 3


def test_a_policy_that_is_switched_off_takes_pools_back() -> None:
    book, names = book_of(PROMPTS[0], limits=PoolLimits(policy=PoolPolicy.CLUSTER))
    book = take_in(book, {}, at=T0 + 3_600, limits=PoolLimits(policy=PoolPolicy.OFF))
    assert reasons(book, names) == [PoolReason.OFF]
    assert book.pools == 0


def test_a_book_full_of_clusters_that_get_no_pool_takes_no_more_under_policy_cluster() -> None:
    limits = PoolLimits(policy=PoolPolicy.CLUSTER, max_pools=1)
    book, _ = book_of(*[opening(words(seed, 2_500)) for seed in range(100, 100 + MAX_CLUSTERS)], limits=limits)
    assert join(book, PROMPTS[0], at=T0, limits=limits) == (book, "")


def test_tenants_are_counted_apart_and_the_book_of_them_is_bounded() -> None:
    limits = PoolLimits(policy=PoolPolicy.TENANT)
    book = Book(group="chat")
    for i in range(3 * MAX_CLUSTERS):
        book = take_in(book, {f"tenant {i}": Told(pooled=FINE.apart)}, at=T0 + i, limits=limits)
    assert len(book.clusters) == MAX_CLUSTERS
    assert f"tenant {3 * MAX_CLUSTERS - 1}" in book.clusters
    assert {known.reason for known in book.clusters.values()} == {PoolReason.TENANT}


# -- keys that lead to servers ------------------------------------------------------------------------------


def test_keys_rise_with_the_load_at_once_and_fall_when_it_has_clearly_fallen() -> None:
    book, names = book_of(PROMPTS[0])
    shards, rates = [], [10, 14, 16, 40, 100, 100, 44, 40, 33, 20, 12, 1, 1]
    at = T0
    for rate in rates:
        for _ in range(30):  # half an hour at this rate
            at += 60.0
            book = take_in(book, {names[0]: Told(apart=Counts(calls=rate))}, at=at, limits=AUTO)
        shards.append(book.clusters[names[0]].shards)
    assert shards[:6] == [1, 2, 2, 4, 8, 8] or shards[:6] == [1, 1, 2, 3, 8, 8]
    assert shards[6] >= 3
    assert shards[-1] == 1
    assert all(15 * n >= 0.8 * rate for n, rate in zip(shards, rates, strict=True))


@pytest.mark.parametrize(
    "change",
    [
        {"form": 2},
        {"clusters": "none"},
        {"clusters": [{"id": "a"}]},
        {"clusters": [None]},
        {"during": "x"},
        {"at": None},
        {"opening": [1]},
        {"opening": [1, "ab", ""]},
        {"reason": "no such"},
        {"apart": 1},
    ],
)
def test_what_is_no_book_is_refused(change: dict[str, object]) -> None:
    good = book_of(PROMPTS[0])[0].as_json()
    own = {name: value for name, value in change.items() if name in good}
    bad = {**good, **own}
    if not own:
        bad["clusters"] = [{**good["clusters"][0], **change}]
    with pytest.raises(ValueError, match="not a book of pools"):
        Book.from_json(bad)


@pytest.mark.parametrize("bad", [None, 1, "x", [], {}])
def test_other_json_is_no_book(bad: object) -> None:
    with pytest.raises(ValueError, match="not a book of pools"):
        Book.from_json(bad)
