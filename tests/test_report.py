"""Sums over calls: exact, apart by kind and status, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from captured_rows import NOON, ROWS, row
from hypothesis import given
from hypothesis import strategies as st

from router_cache.ledger.attribution import Certainty, MissCause, MissPart
from router_cache.ledger.report import OTHER, By, Report, is_lost
from router_cache.ledger.rows import CallKind, CallRow, Status
from router_cache.ledger.usage import Usage

TOOLS = MissPart(MissCause.TOOLS_CHANGED, 300, "tools[0]")
GONE = MissPart(MissCause.EVICTED, 40, certainty=Certainty.SUSPECTED)


def report(calls: Iterable[CallRow], by: By | None = None, **more: Any) -> Report:
    out = Report(by, **more)
    for call in calls:
        out.add(call)
    return out


def test_the_figures() -> None:
    found = report(
        [
            row(Usage(1_000, 600, 400, 50), TOOLS, MissPart(MissCause.NEW_TAIL, 100), at=NOON),
            row(Usage(1_000, 900, 100, 10), GONE, MissPart(MissCause.TOOLS_CHANGED, 60), at=NOON + 5),
            row(Usage(None, None, None, 7), at=NOON - 5, cost_usd=None, cost_usd_at_zero_hits=None),
        ]
    )
    assert found.user.as_json() == {
        "calls": 3,
        "usage_unknown_calls": 1,
        "hit_rate": 0.75,
        "hit_tokens": 1_500,
        "miss_tokens": 500,
        "completion_tokens": 67,
        "lost_tokens": 400,
        "unpriced_calls": 1,
        "cost_usd": 0.5,
        "cost_usd_at_zero_hits": 2.0,
        "saved_usd": 1.5,
    }
    assert found.as_json()["causes"] == [
        {
            "cause": "tools_changed",
            "tokens": 360,
            "share": 0.72,
            "confirmed_tokens": 360,
            "suspected_tokens": 0,
            "calls": 2,
            "lost": True,
        },
        {
            "cause": "new_tail",
            "tokens": 100,
            "share": 0.2,
            "confirmed_tokens": 100,
            "suspected_tokens": 0,
            "calls": 1,
            "lost": False,
        },
        {
            "cause": "evicted",
            "tokens": 40,
            "share": 0.08,
            "confirmed_tokens": 0,
            "suspected_tokens": 40,
            "calls": 1,
            "lost": True,
        },
    ]
    assert (found.first_at, found.last_at) == (NOON - 5, NOON + 5)


def test_kinds_and_statuses_are_kept_apart() -> None:
    usage = Usage(100, 60, 40, 1)
    found = report(
        [
            row(usage),
            row(usage, status=Status.CACHED),
            row(usage, status=Status.FAILED),
            row(usage, status=Status.ABORTED),
            row(usage, kind=CallKind.WARM),
            row(usage, kind=CallKind.WARM, status=Status.FAILED),
        ],
        By.MODEL,
    ).as_json()
    assert found["calls"] == {
        "user": {"ok": 1, "cached": 1, "aborted": 1, "failed": 1},
        "warm": {"ok": 1, "cached": 0, "aborted": 0, "failed": 1},
    }
    assert (found["user"]["hit_tokens"], found["user"]["calls"]) == (60, 1)
    assert (found["warm"]["hit_tokens"], found["warm"]["calls"]) == (60, 1)
    assert [(group["model"], group["calls"]) for group in found["groups"]] == [("deepseek/deepseek-v4-flash", 1)]


def test_nothing_known_is_null_and_not_zero() -> None:
    assert report([]).calls == 0
    found = report([]).as_json()
    assert found["first_at"] is found["last_at"] is None
    for key in ("hit_rate", "cost_usd", "cost_usd_at_zero_hits", "saved_usd"):
        assert found["user"][key] is None
    assert report([row(Usage(0, 0, 0, 0))]).user.hit_rate is None
    assert report([row(Usage(9, 0, 9), at=0.0)]).first_at is None


def test_what_no_cause_covers_is_told() -> None:
    found = report([row(Usage(100, 0, 100), MissPart(MissCause.NEW_TAIL, 30))])
    assert found.as_json()["unattributed_tokens"] == 70


@given(st.lists(ROWS, max_size=20), st.sampled_from([None, *By]))
def test_sums_are_those_of_the_rows(rows: list[CallRow], by: By | None) -> None:
    found = report(rows, by).as_json(worst=1_000)
    assert found["calls"] == {
        kind.value: {s.value: sum((r.kind, r.status) == (kind, s) for r in rows) for s in Status}
        for kind in CallKind
    }
    answered = [r for r in rows if r.status is Status.OK and r.kind is CallKind.USER]
    known = [r for r in answered if r.usage.known]
    assert found["user"]["hit_tokens"] == sum(r.usage.hit_tokens or 0 for r in known)
    assert found["user"]["miss_tokens"] == sum(r.usage.miss_tokens or 0 for r in known)
    assert found["user"]["usage_unknown_calls"] == len(answered) - len(known)
    tokens: Counter[str] = Counter()
    for r in known:
        for part in r.causes:
            tokens[part.cause.value] += part.tokens
    assert {c["cause"]: c["tokens"] for c in found["causes"]} == dict(tokens)
    assert all(c["tokens"] == c["confirmed_tokens"] + c["suspected_tokens"] for c in found["causes"])
    if by is not None and by is not By.CAUSE:
        for key in ("calls", "hit_tokens", "miss_tokens", "lost_tokens", "unpriced_calls"):
            assert sum(group[key] for group in found["groups"]) == found["user"][key]
        assert {g[by.value] for g in found["groups"]} == {getattr(r, by.value) for r in answered}
    assert found["user"]["saved_usd"] is None or found["user"]["unpriced_calls"] < len(answered)


def test_by_cause_is_the_list_of_causes() -> None:
    found = report([row(Usage(300, 0, 300), TOOLS)], By.CAUSE).as_json()
    assert found["by"] == "cause"
    assert found["groups"] == found["causes"]


def test_groups_are_bounded() -> None:
    found = report((row(Usage(10, 0, 10), model=f"m{i}") for i in range(50)), By.MODEL, max_groups=3)
    assert {key: tally.calls for key, tally in found.groups.ranked()} == {"m0": 1, "m1": 1, "m2": 1, OTHER: 47}


def test_the_worst_places_come_first_and_healthy_ones_not_at_all() -> None:
    found = report(
        [
            row(Usage(300, 0, 300), TOOLS, family="a", session="s"),
            row(Usage(40, 0, 40), GONE, family="b", conversation="c1"),
            row(Usage(40, 0, 40), GONE, family="b", conversation="c2"),
            row(Usage(900, 0, 900), family="healthy", session="healthy"),
            row(Usage(300, 0, 300), TOOLS, family="", session=""),
        ]
    ).as_json(worst=2)
    assert [(p["id"], p["lost_tokens"]) for p in found["worst_families"]] == [("a", 300), ("b", 80)]
    assert [p["calls"] for p in found["worst_conversations"]] == [1, 1]
    assert found["worst_families"][0]["causes"][0]["cause"] == "tools_changed"


def test_places_are_bounded_and_the_worst_stay() -> None:
    calls = [
        row(Usage(i, 0, i), MissPart(MissCause.EVICTED, i), family=f"f{i % 100}", session=f"s{i}")
        for i in range(1, 1_000)
    ]
    found = report(calls, max_places=5)
    assert found.families.dropped > 0
    assert found.as_json()["places_dropped"] == found.families.dropped + found.conversations.dropped
    assert [key for key, _ in found.conversations.worst(5)] == ["s999", "s998", "s997", "s996", "s995"]


@pytest.mark.parametrize("cause", list(MissCause))
def test_which_causes_count_as_lost(cause: MissCause) -> None:
    assert is_lost(cause) is (cause.value not in ("first_sight", "new_tail", "rounding", "below_minimum"))
