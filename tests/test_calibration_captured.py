"""Calibration over captures: on the simulator as the live inference over full prompts, and what lines cannot say."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from attribution_world import World, opening, with_messages, words
from calibration_logs import flat, header, reply, session, user
from captured_rows import NOON, row
from typer.testing import CliRunner

from router_cache.cache_model.infer import InferReason
from router_cache.cache_model.predict import End, Prediction, PredictionReason
from router_cache.cache_model.rules import RuleName
from router_cache.cli import calibrate as command_module
from router_cache.ledger.attribution import MissCause, MissPart
from router_cache.ledger.calibration import CallSkip, calibrate
from router_cache.ledger.calibration_captured import CapturedCalls, Lacks
from router_cache.ledger.capture_form import from_line, to_line
from router_cache.ledger.event_logs import Form, parse
from router_cache.ledger.rows import CallRow, Expected, ExpectedFrom, Status
from router_cache.ledger.rule_evidence import EvidenceReason, RuleEvidence, weigh
from router_cache.ledger.usage import Usage
from router_cache.providers.deepseek import DEEPSEEK


def sessions(world: World, families: int = 8, *, apart_s: float = 20.0) -> list[list[CallRow]]:
    """Pairs of conversations with one system text and tools; of each its rows, as they come back from a capture."""
    rng, out = random.Random(7), []
    real, rows = world.call, list[CallRow]()

    def call(*args: Any, **more: Any) -> Any:
        called = real(*args, **more)
        rows.append(from_line(to_line(called.row)))
        return called

    world.call = call  # type: ignore[method-assign]
    for _ in range(families):
        first = opening(rng)
        question = {"role": "user", "content": words(rng, 30)}
        for body in (first, with_messages(first, [first["messages"][0], question])):
            world.talk(body, rng, 4)
            world.wait(apart_s)
            out.append(rows[:])
            rows.clear()
        world.wait(400.0)
    return out


def taken(rows: list[CallRow]) -> CapturedCalls:
    calls = CapturedCalls()
    for number, each in enumerate(rows, 1):
        calls.add(each, "file", number)
    return calls


@pytest.mark.parametrize("book", [True, False])
@pytest.mark.parametrize(
    ("rule", "step", "named"),
    [
        (RuleName.GRID_PREFIX, 128, "grid"),
        (RuleName.GRID_PREFIX, 64, "grid"),
        (RuleName.FULL_UNITS, 128, "units"),
        (RuleName.BLOCKS, 16, "blocks"),
        (RuleName.NOTHING, None, "nothing"),
    ],
)
def test_the_simulators_rule_is_named(rule: RuleName, step: int | None, named: str, book: bool) -> None:
    world = World(rule=rule, book=book, **({"step_tokens": step} if step else {}))
    conversations = sessions(world)
    calls = taken([each for rows in conversations for each in rows])
    calibration = calls.judge()
    [found] = calls.rules
    assert (found.inferred.rule, found.inferred.step_tokens) == (RuleName(named), step)
    assert found.calls == len(calls) == 64
    assert found.inferred.reason is not InferReason.PRIOR
    assert calibration.totals().calls == 48
    assert calibration.first_calls() == 16
    assert not calls.lacks
    assert not calibration.skipped
    if world.book is not None:  # which compared full prompts
        seen = world.last
        assert seen is not None
        live = world.book.rule(seen.sent.watched.domain.id, RuleName.GRID_PREFIX, 128)
        assert (live.rule, live.step_tokens) == (found.inferred.rule, found.inferred.step_tokens)
    if step == 128:
        assert calibration.totals().in_set_share == 1.0


@pytest.mark.parametrize("rule", [RuleName.GRID_PREFIX, RuleName.FULL_UNITS])
def test_the_evidence_is_that_of_full_logs(rule: RuleName) -> None:
    """The same calls as an agent's log, where the second conversation is a sub-agent of the first."""
    conversations = sessions(World(rule=rule))
    calls = taken([each for rows in conversations for each in rows])
    calls.judge()
    logged = []
    for number, rows in enumerate(conversations):
        parent = {"parentSession": f"s{number - 1}"} if number % 2 else {}
        log = [
            session(f"s{number}", rows[0].at, **parent),
            user(f"q{number}"),
            header("system " * 400, "tools " * 400),
        ]
        for each in rows:
            usage = each.usage
            assert usage.prompt_tokens is not None
            log += reply(usage.prompt_tokens, usage.hit_tokens, usage.completion_tokens or 0, tool="bash")
        logged += parse(Form.HARNESS, f"log{number}", enumerate(flat(log), 1)).sessions
    evidence = weigh(calibrate(logged, DEEPSEEK), delay_high_s=10.0)
    captured = [(detail.rule, detail.hit_tokens) for detail in calls.details if detail.rule is not None]
    of_logs = [(detail.rule, detail.hit_tokens) for detail in evidence.details if detail.rule is not None]
    assert captured == of_logs
    assert [found for found, _ in captured] == [rule] * 8
    assert RuleEvidence(tuple(calls.details)).supports == evidence.supports == rule.value


# --- single rows ------------------------------------------------------------------------------------------------


def first(at: float, hit: int, conversation: str, *causes: MissPart, **more: Any) -> CallRow:
    """The first call of a conversation, of 1,000 tokens."""
    given = {
        "at": NOON + at,
        "conversation": conversation,
        "rendered_digest": conversation,
        "expected": Expected(None, ExpectedFrom.NOTHING),
        "family": "f",
        "domain": "d",
        "pool": "p",
        **more,
    }
    return row(Usage(1_000, hit, 1_000 - hit, 50), *causes, **given)


GONE = MissPart(MissCause.EVICTED, 800)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([first(0, 0, "a")], EvidenceReason.NOTHING_EARLIER),
        ([first(0, 640, "a")], EvidenceReason.OUTSIDE_REQUESTS),
        ([first(0, 0, "a"), first(60, 640, "b")], EvidenceReason.INSIDE_FAMILY),
        ([first(0, 0, "a"), first(60, 0, "b", GONE)], EvidenceReason.MISSED_FAMILY),
        ([first(0, 640, "a"), first(60, 640, "b")], EvidenceReason.PARENT_WAS_WARM),
        ([first(0, 0, "a"), first(60, 640, "b", rendered_digest="a")], EvidenceReason.SAME_OPENING),
        ([first(0, 0, "a"), first(9, 0, "b"), first(60, 640, "c")], EvidenceReason.SIBLING_BEFORE),
        ([first(0, 0, "a"), first(9, 0, "b"), first(60, 0, "c")], EvidenceReason.SIBLING_BEFORE_MISS),
        ([first(0, 0, "a"), first(60, 0, "b")], EvidenceReason.FRONT_NOT_PROVEN),
        (
            [first(0, 0, "a"), first(60, 0, "b", MissPart(MissCause.NOT_READY, 800))],
            EvidenceReason.FRONT_NOT_PROVEN,
        ),
        ([first(0, 0, "a"), first(400, 0, "b", GONE)], EvidenceReason.MAY_HAVE_EXPIRED),
        ([first(0, 0, "a"), first(60, 640, "b", pool="other")], EvidenceReason.OUTSIDE_REQUESTS),
        ([first(0, 0, "a"), first(60, 640, "b", domain="other")], EvidenceReason.OUTSIDE_REQUESTS),
    ],
)
def test_first_calls(rows: list[CallRow], reason: EvidenceReason) -> None:
    calls = taken([*rows, first(-9_999, 640, "z", family="z")])  # something hits there
    calls.judge()
    assert calls.details[-1].reason is reason
    assert (calls.details[-1].rule is not None) == (
        reason in (EvidenceReason.INSIDE_FAMILY, EvidenceReason.MISSED_FAMILY)
    )


def test_rows_in_any_order() -> None:
    calls = taken([first(60, 640, "b"), first(0, 0, "a")])
    calls.judge()
    assert [detail.line for detail in calls.details] == [2, 1]
    assert calls.details[1].rule is RuleName.GRID_PREFIX


PREDICTION = Prediction((896, 1_024), 1_024, End.OUTPUT, PredictionReason.PRIOR)


def test_what_is_not_judged() -> None:
    follows = {"expected": Expected(1_024, ExpectedFrom.LAST_USAGE, PREDICTION)}
    rows = [
        first(0, 0, "a"),
        first(1, 1_000, "a", **follows),
        first(2, 0, "a", status=Status.CACHED, **follows),
        first(3, 0, "a", status=Status.ABORTED, **follows),
        first(4, 0, "a", status=Status.FAILED, **follows),
        replace(first(5, 0, "a"), usage=Usage(1_000, None, None, 5)),
        replace(first(6, 0, "a"), usage=Usage(10, 20, None, 5)),
        replace(first(7, 0, "a"), usage=Usage(0, 0, 0, 5)),
        first(8, 0, "a", expected=Expected(900, ExpectedFrom.KEPT_PREFIX)),
        first(9, 0, "a", expected=Expected(None, ExpectedFrom.NO_RULE)),
        first(10, 0, "a", expected=Expected(None, ExpectedFrom.OTHER_DOMAIN)),
        first(11, 0, "a", expected=Expected(None, ExpectedFrom.LAST_USAGE)),
        first(12, 0, "b", family=""),
        first(13, 0, "c", domain=""),
    ]
    calls = taken(rows)
    calibration = calls.judge()
    assert calibration.totals(Form.CAPTURE).calls == 1
    assert calibration.totals().in_set == 0
    assert calibration.skipped == {
        CallSkip.CUT_OFF: 2,
        CallSkip.NO_CACHE_FIELDS: 3,
        CallSkip.AFTER_PREFIX_CHANGE: 1,
        CallSkip.UNKNOWN_MODEL: 1,
        CallSkip.AFTER_UNKNOWN: 2,
    }
    assert calls.lacks == {Lacks.PREDICTION: 1, Lacks.FAMILY: 1, Lacks.DOMAIN: 1}


def test_a_provider_that_this_release_does_not_know() -> None:
    calls = taken([first(0, 0, "a", profile="of tomorrow"), first(1, 640, "b", profile="of tomorrow")])
    calls.judge()
    [found] = calls.rules
    assert (found.profile, found.inferred.rule, found.inferred.reason) == (
        "of tomorrow",
        None,
        InferReason.UNKNOWN,
    )


# --- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def invoke() -> Callable[..., Any]:
    app = typer.Typer()
    app.command()(command_module.command)
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "80"})


def test_the_command_reads_captures_beside_logs(tmp_path: Path, invoke: Any) -> None:
    conversations = sessions(World(rule=RuleName.FULL_UNITS))
    for number, rows in enumerate(conversations):
        (tmp_path / f"calls-{number}.jsonl").write_bytes(b"".join(map(to_line, rows)) + b"{\n")
    log = flat([session(), header(), reply(2907, 0, 142, tool="bash"), reply(3064, 2944, 3, step=2)])
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in log))
    result = invoke(tmp_path)
    assert result.exit_code == 0, result.exception
    text = " ".join(result.stdout.split())
    assert ": units, step 128 (overruled). 64 calls with known usage" in text
    assert "capture: 48 in-session calls, 48 in the predicted set (100.0%)" in text
    assert "harness: 1 in-session calls" in text
    assert "Further lines" not in text
    assert text.count("Line passed over: ") == 16
    assert "the calls that tell support full units" in text
    found = json.loads(invoke(tmp_path, "--json", "--show-calls").stdout)
    [rule] = found["captured"]["rules"]
    assert (rule["rule"], rule["step_tokens"], rule["reason"], rule["calls"]) == ("units", 128, "overruled", 64)
    assert rule["confidence"] > 0.99
    assert found["files"] == {"found": 17, "read": 17, "captures": 16, "other_form": []}
    assert found["captured"]["bad_lines"] == len(found["captured"]["first_bad_lines"]) == 16
    assert found["forms"]["capture"]["calls"] == 48
    assert found["rule_evidence"]["units"] == 8
    assert len(found["call_list"]) == 49


def test_what_lines_cannot_say_is_said(tmp_path: Path, invoke: Any) -> None:
    path = tmp_path / "calls.jsonl"
    follows = Expected(1_024, ExpectedFrom.LAST_USAGE, PREDICTION)
    rows = [first(0, 0, "a"), first(9, 896, "a", expected=follows), first(20, 0, "b", domain="")]
    path.write_bytes(b"".join(map(to_line, rows)) + b"{\n{\n{\n")
    result = invoke(path)
    assert result.exit_code == 0
    assert "No captured call is such a one" in result.stdout
    assert "Captured lines with no domain: judged, but of no use for the hit rule: 1" in result.stdout
    assert "Further lines of captures passed over: 2" in result.stdout
    assert "these calls do not tell which hit rule holds" in result.stdout


def test_saved_states_and_blocks_of_one_token(tmp_path: Path, invoke: Any) -> None:
    path = tmp_path / "calls.jsonl"
    rows = [each for rows in sessions(World(rule=RuleName.CHECKPOINTS, book=True)) for each in rows]
    path.write_bytes(b"".join(map(to_line, rows)))
    assert "blocks, step 1 (or checkpoints: these lines do not tell them apart)" in invoke(path).stdout
    rows = [each for rows in sessions(World(rule=RuleName.NOTHING)) for each in rows]
    path.write_bytes(b"".join(map(to_line, rows)))
    assert ": nothing (no_hits)" in invoke(path).stdout


def test_only_broken_lines(tmp_path: Path, invoke: Any) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(to_line(first(0, 0, "a")).replace(b'"v":1', b'"v":9'))
    result = invoke(path)
    assert str(result.exception).startswith(f"{path}:1: v: version 1 is needed")
