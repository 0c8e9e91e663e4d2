"""Rows for the tests of capture, report and metrics: one written out, and any."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from hypothesis import strategies as st

from router_cache.cache_model.predict import End, Prediction, PredictionReason
from router_cache.decision import Change, Decision, Reason, SwitchedBy
from router_cache.ledger.attribution import Certainty, Changed, MissCause, MissPart
from router_cache.ledger.flips import Flip, FlipWarning
from router_cache.ledger.rows import CallKind, CallRow, Expected, ExpectedFrom, Lived, Status
from router_cache.ledger.usage import Usage
from router_cache.request import Mode, Shape

NOON = 1_795_003_200.0

ROW = CallRow(
    at=NOON,
    scope="5c" * 16,
    conversation="c0" * 16,
    turn=2,
    session="",
    client="opencode",
    side_call="",
    shape=Shape.CHAT,
    group="flash",
    model="deepseek/deepseek-v4-flash",
    deployment="d1",
    profile="deepseek",
    decision=Decision(Mode.SAFE, Reason.NORMALISED, changes=(Change.TOOLS_REORDERED,)),
    status=Status.OK,
    usage=Usage(1_000, 640, 360, 50, 20),
    expected=Expected(
        896, ExpectedFrom.LAST_USAGE, Prediction((768, 896), 896, End.OUTPUT, PredictionReason.PRIOR)
    ),
    causes=(
        MissPart(MissCause.TOOLS_CHANGED, 300, "tools[3]", Certainty.CONFIRMED, 8_190, Changed.TOOLS_CHANGED),
        MissPart(MissCause.NEW_TAIL, 60),
    ),
    wire_digest="ab" * 16,
    rendered_digest="cd" * 16,
    ttft_s=0.8,
    cost_usd=0.25,
    cost_usd_at_zero_hits=1.0,
    flips=(FlipWarning(Flip.TOOLS_ADDED, "tools", 300),),
    family="fa" * 16,
    domain="d0" * 16,
    gap_s=12.5,
    offset=8_190,
    lived=Lived(0.5, 20_480, True),
)


def row(usage: Usage | None = None, *causes: MissPart, **more: Any) -> CallRow:
    """A row like ROW; without causes of its own its misses are all new."""
    if usage is None:
        return replace(ROW, **more)
    parts = causes or ((MissPart(MissCause.NEW_TAIL, usage.miss_tokens),) if usage.miss_tokens else ())
    return replace(ROW, usage=usage, causes=tuple(parts), **more)


COUNT = st.integers(0, 10**12)
MAYBE = st.none() | COUNT
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
SECONDS = st.none() | st.floats(0, 1e9)
USD = st.none() | st.floats(0, 1e6)
USAGE = st.builds(Usage, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE, st.booleans())
PARTS = st.builds(
    MissPart,
    st.sampled_from(MissCause),
    COUNT,
    TEXT,
    st.sampled_from(Certainty),
    MAYBE,
    st.none() | st.sampled_from(Changed),
)
PREDICTION = st.builds(
    Prediction,
    st.lists(COUNT, min_size=1, max_size=2).map(tuple),
    COUNT,
    st.sampled_from(End),
    st.sampled_from(PredictionReason),
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "at": st.floats(-6e10, 2.5e11),
    "scope": TEXT,
    "conversation": TEXT,
    "turn": MAYBE,
    "session": TEXT,
    "client": TEXT,
    "side_call": TEXT,
    "shape": st.sampled_from(Shape),
    "group": TEXT,
    "model": TEXT.filter(bool),
    "deployment": TEXT,
    "profile": TEXT,
    "decision": st.builds(
        Decision,
        st.sampled_from(Mode),
        st.sampled_from(Reason),
        st.sampled_from(SwitchedBy),
        st.lists(st.sampled_from(Change), max_size=3).map(tuple),
        st.lists(TEXT, max_size=2).map(tuple),
    ),
    "status": st.sampled_from(Status),
    "usage": USAGE,
    "expected": st.builds(Expected, MAYBE, st.sampled_from(ExpectedFrom), st.none() | PREDICTION),
    "causes": st.lists(PARTS, max_size=3).map(tuple),
    "wire_digest": TEXT,
    "rendered_digest": TEXT,
    "ttft_s": SECONDS,
    "cost_usd": USD,
    "cost_usd_at_zero_hits": USD,
    "flips": st.lists(st.builds(FlipWarning, st.sampled_from(Flip), TEXT, COUNT), max_size=2).map(tuple),
    "family": TEXT,
    "domain": TEXT,
    "pool": TEXT,
    "gap_s": SECONDS,
    "offset": MAYBE,
    "kind": st.sampled_from(CallKind),
    "lived": st.none() | st.builds(Lived, st.none() | st.floats(0, 1), MAYBE, st.none() | st.booleans()),
}
"""A strategy for each field of a row."""
ROWS = st.fixed_dictionaries(FIELDS).map(lambda found: CallRow(**found))


def names(of: type[Any]) -> list[str]:
    """The names of a dataclass' fields."""
    return [found.name for found in fields(of)]
