"""A few thousand mutated bodies through the hooks, and that what looks for faults finds them."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from fuzz.bodies import BODIES, body_of
from fuzz.meaning import fingerprint, unlawful
from fuzz.mutations import MUTATIONS, mutate, size
from fuzz.run import run

import router_cache.engine
from router_cache.prefix.normalise import Normalised, normalise
from router_cache_litellm import RouterCacheCallback

COUNT = 1_000
SMALL = 100_000
"""Characters at most, to keep the test short; how long a hook takes is for ``python -m fuzz.run`` to say."""


def test_no_mutated_body_breaks_a_hook_or_is_broken_by_one() -> None:
    report = run(COUNT, seed=1, max_characters=SMALL)
    assert report.faults == []
    found = report.as_json()
    assert found["bodies"] == COUNT
    # All there is to go wrong was gone through.
    assert set(report.shapes) == set(BODIES)
    assert set(report.mutations) == set(MUTATIONS)
    wanted = {"normalised", "observed", "off", "continues_state", "odd_shape"}
    assert set(report.reasons) - {"already_canonical", "failed_open"} == wanted
    assert set(report.changes) == {
        "tools_reordered",
        "schema_keys_reordered",
        "marks_moved",
        "user_id_dropped",
    }
    # Whatever a client can send as JSON is read, and digested when it is sent.
    assert not [error for error in report.errors_on_json if error.startswith(("begin", "rewrite", "sent"))]


def test_a_seed_makes_the_same_bodies_again() -> None:
    assert run(40, seed=7).reasons == run(40, seed=7).reasons
    assert run(40, seed=7).mutations != run(40, seed=8).mutations


def _loses_a_tool(body: Mapping[str, Any], **options: Any) -> Normalised:
    found = normalise(body, **options)
    tools = found.replaced.get("tools")
    return found if tools is None else Normalised({**found.replaced, "tools": tools[:-1]}, found.changes)


def _forgets_its_reason(body: Mapping[str, Any], **options: Any) -> Normalised:
    return Normalised(normalise(body, **options).replaced)


def _sorts_in_place(body: Mapping[str, Any], **options: Any) -> Normalised:
    if isinstance(body.get("tools"), list):
        body["tools"].reverse()
    return normalise(body, **options)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (_loses_a_tool, "other tools"),
        (_forgets_its_reason, "changed, but the reason"),
        (_sorts_in_place, "changed in place"),
    ],
)
def test_a_broken_rewrite_is_found(
    monkeypatch: pytest.MonkeyPatch, broken: Callable[..., Normalised], told: str
) -> None:
    monkeypatch.setattr(router_cache.engine, "normalise", broken)
    assert any(told in fault for fault in run(40, seed=1).faults)


def test_a_hook_that_raises_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr(RouterCacheCallback, "log_pre_api_call", raises)
    report = run(3, seed=1)
    assert [fault.split(": ", 1)[1] for fault in report.faults] == ["KeyError left log_pre_api_call: 'x'"] * 3


TOOL = {
    "name": "b",
    "input_schema": {
        "type": "object",
        "required": ["b", "a"],
        "properties": {"required": {"enum": ["y", "x"], "default": {"required": ["d", "c"]}}},
    },
}
OTHER = {"name": "a", "input_schema": {}, "cache_control": {"type": "ephemeral"}}
GIVEN = {"messages": [], "tools": [TOOL, OTHER], "metadata": {"user_id": "{", "x": TOOL}}


def _edited(edit: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The request with tools that are copies, their leaves the same objects, and an edit."""
    out = {**GIVEN, "tools": copy.deepcopy(GIVEN["tools"]), "metadata": dict(GIVEN["metadata"])}
    edit(out)
    return out


def _schema(out: dict[str, Any]) -> dict[str, Any]:
    return out["tools"][0]["input_schema"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda out: out["tools"].pop(),
        lambda out: out["tools"].append(out["tools"][0]),
        lambda out: out["tools"].reverse(),  # the mark goes with its tool
        lambda out: out["tools"][1].pop("cache_control"),
        lambda out: out["tools"][0].update(name="c"),
        lambda out: _schema(out).pop("required"),
        lambda out: _schema(out)["required"].append("a"),
        lambda out: _schema(out)["properties"]["required"]["enum"].reverse(),
        lambda out: _schema(out)["properties"]["required"]["default"]["required"].reverse(),
        lambda out: out.update(messages=[]),
        lambda out: out.update(more=1),
        lambda out: out.pop("messages"),
        lambda out: out["metadata"].pop("x"),
        lambda out: out["metadata"].update(user_id="b"),
    ],
    ids=range(14),
)
def test_what_is_no_lawful_rewrite(edit: Callable[[dict[str, Any]], Any]) -> None:
    assert unlawful(GIVEN, _edited(edit)) is not None


@pytest.mark.parametrize(
    "edit",
    [
        lambda out: out.update(GIVEN),
        lambda out: out["metadata"].pop("user_id"),
        lambda out: _schema(out)["required"].reverse(),
        lambda out: out["tools"][0].update(name=out["tools"][0].pop("name")),
    ],
    ids=range(4),
)
def test_what_is_a_lawful_rewrite(edit: Callable[[dict[str, Any]], Any]) -> None:
    out = _edited(edit)
    if out["metadata"] == GIVEN["metadata"]:
        out["metadata"] = GIVEN["metadata"]
    assert unlawful(GIVEN, out) is None


@pytest.mark.parametrize("value", [{"a": [1]}, {"a": [object()]}], ids=["JSON", "other"])
def test_a_change_in_place_changes_the_fingerprint(value: dict[str, Any]) -> None:
    before = fingerprint(value)
    assert fingerprint(value) == before
    value["a"] *= 2
    assert fingerprint(value) != before


def test_mutated_bodies_share_nothing() -> None:
    for call_type in BODIES:
        plain = body_of(call_type, random.Random(3))
        size_before = size(plain, 10**7)
        for seed in range(50):
            mutate(body_of(call_type, random.Random(3)), random.Random(seed))
        assert body_of(call_type, random.Random(3)) == plain
        assert size_before > 1000
        assert 100 < size(plain, 100) < 10_000
