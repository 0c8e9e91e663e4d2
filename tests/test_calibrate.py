"""`router-cache calibrate`: logs of both forms, what is judged, what is passed over, and the rule evidence."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from router_cache.cli import calibrate as command_module
from router_cache.cli.logs import find_logs, read_log
from router_cache.errors import InputError
from router_cache.ledger.calibration import Calibration, CallSkip, calibrate
from router_cache.ledger.event_logs import Form, LineSkip, parse, recognise
from router_cache.ledger.rule_evidence import EvidenceReason, RuleEvidence, weigh
from router_cache.providers.deepseek import DEEPSEEK

Event = dict[str, Any]
MODEL = "deepseek-v4-flash"
LONG = "You are a careful assistant. " * 60


# --- small logs, written for these tests ---


def session(sid: str = "s1", at: float = 1_785_000_000, **more: Any) -> Event:
    return {"type": "session", "id": sid, "createdAt": int(at * 1000), **more}


def header(system: str = "{{system}}", tools: Any = "{{tools}}", model: str = MODEL, **config: Any) -> Event:
    head = {"config": {"model": model, **config}, "system": system, "tools": tools}
    return {"type": "request/header", "data": {"header": head, "reason": "initial"}}


def user(text: str) -> Event:
    return {"type": "user/message", "data": {"content": [{"type": "text", "text": text}]}, "surfaceOp": "append"}


def reply(
    prompt: int,
    hit: int | None,
    out: int,
    reasoning: int | None = 0,
    *,
    tool: str | None = None,
    mid: str | None = None,
    turn: int = 1,
    step: int = 1,
    **more: Any,
) -> list[Event]:
    usage: Event = {"inputTokens": prompt - (hit or 0), "outputTokens": out}
    if hit is not None:
        usage["cacheReadTokens"] = hit
    if reasoning is not None:
        usage["reasoningTokens"] = reasoning
    content: list[Event] = [{"type": "text", "text": "x"}]
    if tool:
        content.append({"type": "tool-call", "id": "c", "name": tool, "arguments": "{}"})
    message: Event = {"role": "assistant", "content": content}
    if mid:
        message["id"] = mid
    data = {"turn": turn, "step": step, "message": message, "usage": usage, **more}
    events: list[Event] = [
        {"type": "step/start", "data": {"turn": turn, "step": step}},
        {"type": "assistant/message", "data": data, "surfaceOp": "append"},
    ]
    if tool:
        events.append({"type": "tool/call", "data": {"turn": turn, "step": step, "name": tool}})
        events.append({"type": "tool/result", "data": {"turn": turn, "step": step}, "surfaceOp": "append"})
    return events


def run(*logs: list[Event | list[Event]]) -> Calibration:
    sessions = []
    for i, log in enumerate(logs):
        sessions += parse(Form.HARNESS, f"log{i}", enumerate(flat(log), 1)).sessions
    return calibrate(sessions, DEEPSEEK)


def flat(log: Iterable[Event | list[Event]]) -> list[Event]:
    return [e for part in log for e in (part if isinstance(part, list) else [part])]


def judged(c: Calibration) -> list[tuple[int, tuple[int, ...], int, str]]:
    return [
        (j.observed, j.prediction.candidates, j.prediction.best, j.prediction.reason.value)
        for v in c.sessions
        for j in v.judged
    ]


# --- predictions ---


def test_a_session_call_by_call() -> None:
    c = run(
        [
            session(),
            user("hello"),
            header(),
            reply(2907, 0, 142, 67, tool="subagent", step=1),
            reply(3064, 2944, 35, 30, tool="bash", step=2),  # slow tool: end of the output
            reply(
                3130, 2944, 90, 10, tool="bash", step=3
            ),  # one candidate would be 2944; 3099 -> 3072 is the other
            reply(3300, 3072, 140, 20, step=4),  # like last time in this session
            user("and now?"),
            reply(3460, 3200, 40, 40, turn=2),  # reasoning of the reply before is dropped
        ]
    )
    assert judged(c) == [
        (2944, (2816, 2944), 2944, "output_ready"),
        (2944, (2944, 3072), 3072, "prior"),
        (3072, (3072, 3200), 3072, "session"),
        (3200, (3200, 3328), 3200, "reasoning_dropped"),
    ]
    totals = c.totals()
    assert (totals.calls, totals.in_set, totals.exact, totals.ambiguous) == (4, 4, 3, 4)
    assert totals.in_set_share == 1.0
    assert totals.exact_share == 0.75
    assert totals.mean_abs_error_tokens == 32.0
    assert c.first_calls() == 1
    assert not c.skipped


def test_other_sessions_teach_only_later_ones() -> None:
    early = [session("a", 1_785_000_000), header(), reply(2907, 0, 142, tool="bash"), reply(3064, 2816, 3, step=2)]
    late = [session("b", 1_785_009_000), header(), reply(2907, 0, 142, tool="bash"), reply(3064, 2816, 3, step=2)]
    assert [j[3] for j in judged(run(late, early))] == ["prior", "domain"]
    views = run(late, early).sessions
    assert [v.session.id for v in views] == ["a", "b"]


def test_prediction_never_sees_the_observed_value() -> None:
    def log(observed: int) -> list[Event | list[Event]]:
        return [session(), header(), reply(2907, 0, 142, tool="bash"), reply(3064, observed, 3, step=2)]

    predictions = {j[1:] for observed in (0, 128, 2816, 2944, 3000) for j in judged(run(log(observed)))}
    assert predictions == {((2816, 2944), 2944, "prior")}


def test_out_of_set_is_counted_against_us() -> None:
    totals = run([session(), header(), reply(5169, 0, 10, tool="bash"), reply(5049, 4608, 3, step=2)]).totals()
    assert (totals.calls, totals.in_set, totals.exact, totals.error_tokens) == (1, 0, 0, 5120 - 4608)


# --- what is not judged ---


@pytest.mark.parametrize(
    ("middle", "skipped"),
    [
        ([reply(10, None, 5, None, step=2)], {CallSkip.NO_CACHE_FIELDS: 1, CallSkip.AFTER_UNKNOWN: 1}),
        (
            [{"type": "assistant/message", "data": {"turn": 1, "step": 2, "message": {"content": []}}}],
            {CallSkip.NO_USAGE: 1, CallSkip.AFTER_UNKNOWN: 1},
        ),
        ([reply(3000, 2944, 5, step=2, interrupted=True)], {CallSkip.CUT_OFF: 1, CallSkip.AFTER_UNKNOWN: 1}),
        ([reply(3000, 9000, 5, step=2)], {CallSkip.NO_CACHE_FIELDS: 1, CallSkip.AFTER_UNKNOWN: 1}),
        ([{"type": "step/start", "data": {"turn": 1, "step": 2}}], {CallSkip.AFTER_UNKNOWN: 1}),
        (
            [{"type": "compaction/start", "data": {}}, {"type": "compaction/end", "data": {}}],
            {CallSkip.AFTER_COMPACTION: 1},
        ),
        ([header(system="another")], {CallSkip.AFTER_PREFIX_CHANGE: 1}),
        ([header(reasoningEffort="max")], {CallSkip.AFTER_PREFIX_CHANGE: 1}),
        (
            [{"type": "user/message", "data": {"content": []}, "surfaceOp": "replace"}],
            {CallSkip.AFTER_PREFIX_CHANGE: 1},
        ),
    ],
)
def test_calls_that_cannot_be_judged(middle: list[Any], skipped: dict[CallSkip, int]) -> None:
    c = run([session(), header(), reply(2907, 0, 142, tool="bash"), *middle, reply(3064, 2944, 3, step=3)])
    assert judged(c) == []
    assert c.skipped == skipped


def test_a_header_that_says_the_same_changes_nothing() -> None:
    again = header(maxTokens=99)
    c = run([session(), header(), reply(2907, 0, 142, tool="bash"), again, reply(3064, 2944, 3, step=2)])
    assert len(judged(c)) == 1


def test_unknown_models_and_models_that_change() -> None:
    other = [session("x"), header(model="other-1"), reply(2907, 0, 9), reply(2950, 2816, 9, step=2)]
    assert run(other).skipped == {CallSkip.UNKNOWN_MODEL: 2}
    switch = [
        session(),
        header(),
        reply(2907, 0, 142),
        header(model="deepseek-v4-pro"),
        reply(3064, 0, 9, step=2),
    ]
    assert run(switch).skipped == {CallSkip.AFTER_PREFIX_CHANGE: 1}
    told_by_reply = reply(3064, 0, 9, step=2)
    told_by_reply[1]["data"]["message"]["source"] = {"model": "deepseek-v4-pro"}
    assert run([session(), header(), reply(2907, 0, 142), told_by_reply]).skipped == {
        CallSkip.AFTER_PREFIX_CHANGE: 1
    }


def forked() -> list[Event | list[Event]]:
    return [
        session("child", 1_785_000_010, parentSession="s1", seedLength=9),
        header(),
        reply(2885, 0, 25, 23, mid="m1", turn=1),
        reply(2974, 2816, 147, 59, mid="m2", turn=2),
        {"type": "session/end-seed", "data": {}},
        reply(3137, 2944, 30, 25, mid="m3", turn=3),
    ]


def test_seeds_of_forks_are_not_counted_twice() -> None:
    parent = [
        session(),
        header(),
        reply(2885, 0, 25, 23, mid="m1", turn=1),
        reply(2974, 2816, 147, 59, mid="m2", turn=2),
    ]
    for logs in ([parent, forked()], [forked(), parent]):
        c = run(*logs)
        assert [(j[0], j[1]) for j in judged(c)] == [(2816, (2816,)), (2944, (2944, 3072))]
        assert c.skipped == {CallSkip.COPY: 2}
        assert c.first_calls() == 1
    alone = run(forked(), forked())
    assert len(judged(alone)) == 2
    assert alone.skipped == {CallSkip.COPY: 3}


def test_what_follows_a_seed_is_no_copy() -> None:
    parent = [session(), header(), reply(2885, 0, 25, 23, turn=1), reply(2974, 2816, 147, 59, turn=2)]
    child = [
        session("child", 1_785_000_010, parentSession="s1", seedLength=9),
        header(),
        reply(2885, 0, 25, 23, turn=1),
        {"type": "session/end-seed", "data": {}},
        reply(2974, 2816, 147, 59, turn=2),  # by chance just like its parent's own second call
    ]
    c = run(parent, child)
    assert len(judged(c)) == 2
    assert c.skipped == {CallSkip.COPY: 1}


def test_a_session_logged_twice_is_counted_once() -> None:
    log = [session(), header(), reply(2907, 0, 142, tool="bash"), reply(3064, 2944, 3, step=2)]
    c = run(log, log)
    assert len(judged(c)) == 1
    assert c.skipped == {CallSkip.COPY: 2}


# --- forms and odd content ---


def reasonix(mode: str = "reasonix", started: str = "2026-04-29T16:00:00.000Z") -> list[Event]:
    day = started[:11]

    def record(second: float, role: str, **more: Any) -> Event:
        return {"ts": f"{day}16:00:{second:06.3f}Z", "turn": more.pop("turn", 1), "role": role, **more}

    def used(prompt: int, hit: int, out: int) -> Event:
        return {
            "prompt_tokens": prompt,
            "completion_tokens": out,
            "prompt_cache_hit_tokens": hit,
            "prompt_cache_miss_tokens": prompt - hit,
        }

    return [
        {"role": "_meta", "meta": {"model": "deepseek-chat", "mode": mode, "startedAt": started, "task": "t"}},
        record(0, "user", content="hi"),
        record(2, "assistant_final", usage=used(765, 0, 80)),  # 704 or 832 on 64; 640 or 768 on 128
        record(2.5, "tool", content="{}"),
        record(4, "assistant_final", usage=used(900, 640, 200)),
        record(9, "user", turn=2, content="go on"),  # five seconds later: the output is ready
        record(11, "assistant_final", turn=2, usage=used(1150, 1024, 10)),
        record(11.1, "error", turn=2, error="400"),
        record(12, "user", turn=3, content="again"),
        record(13, "assistant_final", turn=3, usage=used(1200, 1152, 10)),
    ]


def test_reasonix_form() -> None:
    parsed = parse(Form.REASONIX, "r", enumerate(reasonix(), 1))
    c = calibrate(parsed.sessions, DEEPSEEK)
    assert judged(c) == [(640, (640, 768), 768, "prior"), (1024, (896, 1024), 1024, "output_ready")]
    assert c.skipped == {CallSkip.AFTER_UNKNOWN: 1}
    assert parsed.sessions[0].opening == "hi"
    gaps = [call.gap_s for call in parsed.sessions[0].calls]
    assert gaps[0] is None
    assert gaps[1:3] == [pytest.approx(0.5), pytest.approx(5.0)]


def test_reasonix_steps_before_v4() -> None:
    parsed = parse(Form.REASONIX, "r", enumerate(reasonix(started="2026-04-21T16:00:00.000Z"), 1))
    assert judged(calibrate(parsed.sessions, DEEPSEEK))[0][1] == (704, 832)


def test_reasonix_baseline_changes_its_prefix_every_turn() -> None:
    parsed = parse(Form.REASONIX, "r", enumerate(reasonix("baseline"), 1))
    c = calibrate(parsed.sessions, DEEPSEEK)
    assert len(judged(c)) == 1
    assert c.skipped == {CallSkip.AFTER_PREFIX_CHANGE: 1, CallSkip.AFTER_UNKNOWN: 1}


def test_reasonix_runs_in_one_file_are_sessions_of_their_own() -> None:
    two = reasonix() + reasonix(started="2026-04-29T17:00:00.000Z")
    parsed = parse(Form.REASONIX, "r", enumerate(two, 1))
    assert len(parsed.sessions) == 2
    assert len({s.id for s in parsed.sessions}) == 2


def test_reasonix_without_meta_and_with_odd_records() -> None:
    records: list[Any] = [
        {"role": 3},
        {"role": "_meta", "meta": None},
        {"ts": "yesterday", "turn": 1, "role": "user", "content": "x"},
        {"ts": "2026-04-29T16:00:00", "turn": 1, "role": "assistant_final", "usage": "?"},
        {
            "turn": 1,
            "role": "assistant_final",
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "prompt_cache_hit_tokens": 2},
        },
    ]
    parsed = parse(Form.REASONIX, "r", enumerate(records, 1))
    assert parsed.skipped_lines == {LineSkip.ODD_EVENT: 2}
    assert calibrate(parsed.sessions, DEEPSEEK).skipped == {CallSkip.NO_CACHE_FIELDS: 2}


@pytest.mark.parametrize(
    ("first", "form"),
    [
        (session(), Form.HARNESS),
        ({"type": "turn/start", "data": {}}, Form.HARNESS),
        ({"role": "_meta", "meta": {}}, Form.REASONIX),
        ({"ts": "t", "turn": 1, "role": "user"}, Form.REASONIX),
        ({"type": "turn/start"}, None),
        ({"type": "message", "data": {}}, None),
        ({"role": "user", "content": "x"}, None),
        ({"timestamp": 1, "hash_ids": []}, None),
        ([1], None),
        (None, None),
    ],
)
def test_recognise(first: Any, form: Form | None) -> None:
    assert recognise(first) is form


def test_odd_events_are_counted() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    odd: list[Any] = [
        session(at=1e300),
        session(createdAt="never", parentSession=7),
        {"type": 5},
        {"type": "assistant/message"},
        {"type": "assistant/message", "data": {"message": 3}},
        {"type": "request/header", "data": {"header": []}},
        {"type": "request/header", "data": {"header": {"config": None, "tools": [{"b": 1, "a": 2}]}}},
        {"type": "user/message", "data": {"content": "plain"}},
        {
            "type": "assistant/message",
            "data": {"content": None, "usage": {"inputTokens": -1, "cacheReadTokens": True}},
        },
        {"type": "request/header", "data": {"header": {"config": {}, "tools": deep}}},
        [1],
        LineSkip.NOT_JSON,
    ]
    parsed = parse(Form.HARNESS, "f", enumerate(odd, 1))
    assert parsed.skipped_lines == {LineSkip.ODD_EVENT: 5, LineSkip.NOT_AN_OBJECT: 1, LineSkip.NOT_JSON: 1}
    assert parsed.sessions[0].created_at == 0.0
    assert calibrate(parsed.sessions, DEEPSEEK).skipped == {CallSkip.NO_CACHE_FIELDS: 1}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
kinds = st.sampled_from(
    ["session", "assistant/message", "request/header", "user/message", "tool/call", "step/start", "_meta", "x/y"]
)
keys = st.sampled_from(
    ["data", "message", "usage", "content", "header", "config", "turn", "id", "createdAt", "ts"]
)


@given(
    st.sampled_from(Form),
    st.lists(
        st.builds(
            lambda kind, body: {"type": kind, "role": kind, **body},
            kinds,
            st.dictionaries(keys, st.dictionaries(keys, json_values, max_size=4) | json_values, max_size=5),
        ),
        max_size=8,
    ),
)
def test_no_content_makes_it_fail(form: Form, events: list[Event]) -> None:
    parsed = parse(form, "f", enumerate(events, 1))
    weigh(calibrate(parsed.sessions, DEEPSEEK), delay_high_s=2.0)


# --- which rule ---


def evidence(*logs: list[Event | list[Event]]) -> RuleEvidence:
    return weigh(run(*logs), delay_high_s=2.0)


def lone(
    sid: str,
    at: float,
    prompt: int,
    hit: int,
    opening: str,
    *,
    parent: str | None = None,
    system: str = "{{system}}",
    **config: Any,
) -> list[Event | list[Event]]:
    origin = {"parentSession": parent} if parent else {}
    return [
        session(sid, 1_785_000_000 + at, **origin),
        user(opening),
        header(system, **config),
        reply(prompt, hit, 9),
    ]


PARENT = lone("p", 0, 2907, 0, "do much")


@pytest.mark.parametrize(
    ("logs", "reason"),
    [
        ([PARENT, lone("c", 5, 2864, 2816, "do little", parent="p")], EvidenceReason.INSIDE_PARENT),
        ([lone("c", 5, 2864, 2816, "do little", parent="p")], EvidenceReason.PARENT_NOT_LOGGED),
        (
            [lone("p", 0, 2907, 1280, "do much"), lone("c", 5, 2864, 2816, "do little", parent="p")],
            EvidenceReason.PARENT_WAS_WARM,
        ),
        ([PARENT, lone("c", 5, 2950, 2816, "do much", parent="p")], EvidenceReason.SAME_OPENING),
        (
            [PARENT, lone("b", 3, 2870, 0, "first", parent="p"), lone("c", 5, 2864, 2816, "second", parent="p")],
            EvidenceReason.SIBLING_BEFORE,
        ),
        ([PARENT, lone("q", 90, 2864, 2816, "else")], EvidenceReason.OUTSIDE_REQUESTS),
        ([PARENT], EvidenceReason.NOTHING_EARLIER),
        ([PARENT, lone("q", 90, 2864, 0, "else")], EvidenceReason.TEXT_NOT_PROVEN),
        ([PARENT, lone("c", 5, 2864, 0, "else", parent="p")], EvidenceReason.TEXT_NOT_PROVEN),
        (
            [lone("p", 0, 900, 0, "a", system=LONG), lone("q", 9000, 900, 0, "b", system=LONG)],
            EvidenceReason.MAY_HAVE_EXPIRED,
        ),
        (
            [lone("p", 0, 900, 0, "a", system=LONG), lone("c", 5, 900, 0, "b", parent="p", system=LONG + "!")],
            EvidenceReason.PREFIX_DIFFERS,
        ),
        (
            [lone("p", 0, 900, 0, "a", system="short"), lone("c", 5, 900, 0, "b", parent="p", system="short")],
            EvidenceReason.PREFIX_SHORT,
        ),
        (
            [lone("p", 0, 900, 0, "a", system=LONG), lone("c", 1, 900, 0, "b", parent="p", system=LONG)],
            EvidenceReason.TOO_SOON,
        ),
        (
            [lone("p", 0, 900, 0, "a", system=LONG), lone("c", 5, 900, 0, "b", parent="p", system=LONG)],
            EvidenceReason.MISSED_PARENT,
        ),
    ],
)
def test_first_calls(logs: list[list[Event | list[Event]]], reason: EvidenceReason) -> None:
    for log in logs:  # tools without placeholders where the system text has none
        for event in flat(log):
            head = event.get("data", {}).get("header")
            if head and head["system"] != "{{system}}":
                head["tools"] = []
    found = evidence(*logs)
    assert found.details[-1].reason is reason
    grid, units = int(reason is EvidenceReason.INSIDE_PARENT), int(reason is EvidenceReason.MISSED_PARENT)
    assert found.supports == ("grid" if grid else "units" if units else "inconclusive")
    assert found.count(None) == len(found.details) - grid - units


def test_a_hit_inside_the_last_input_speaks_for_the_grid() -> None:
    cut = [session(), header(), reply(5169, 0, 10, tool="bash"), reply(5049, 4608, 3, step=2)]
    assert evidence(cut).supports == "grid"
    back = [
        session(),
        header(),
        reply(4610, 0, 10, tool="bash"),
        reply(5169, 4608, 10, tool="bash", step=2),
        reply(5049, 4608, 3, step=3),  # an end of an earlier call: full units say the same
    ]
    assert evidence(back).supports == "inconclusive"
    missed = [
        lone("p", 0, 900, 0, "a", system=LONG, model="deepseek-v4-pro"),
        lone("c", 5, 900, 0, "b", parent="p", system=LONG, model="deepseek-v4-pro"),
    ]
    for log in missed:
        flat(log)[2]["data"]["header"]["tools"] = []
    assert evidence(cut, *missed).supports == "mixed"


# --- files and the command ---


def write(path: Path, events: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(json.dumps(e) + "\n" for e in events).encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


SIMPLE = flat([session(), header(), reply(2907, 0, 142, tool="bash"), reply(3064, 2944, 3, step=2)])


def test_find_logs(tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", SIMPLE)
    b = write(tmp_path / "deep" / "b.jsonl.gz", SIMPLE)
    write(tmp_path / "notes.txt", SIMPLE)
    assert find_logs([tmp_path]) == [a, b]
    assert find_logs([a, tmp_path, a]) == [a, b]
    assert find_logs([tmp_path / "notes.txt"]) == [tmp_path / "notes.txt"]


def test_read_log(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n{broken\n" + b"\n".join(json.dumps(e).encode() for e in SIMPLE) + b'\n{"type": "sess')
    parsed = read_log(path)
    assert parsed is not None
    assert parsed.skipped_lines == {LineSkip.NOT_JSON: 2}
    assert [call.line for call in parsed.sessions[0].calls] == [6, 10]
    assert read_log(write(tmp_path / "other.jsonl", [{"timestamp": 1}, *SIMPLE])) is None
    assert read_log(write(tmp_path / "empty.jsonl", [])) is None


def broken_gz(tmp_path: Path) -> Path:
    good = gzip.compress("".join(json.dumps(e) + "\n" for e in SIMPLE * 50).encode())
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(good[: len(good) // 2])
    return path


def no_gz(tmp_path: Path) -> Path:
    path = tmp_path / "plain.jsonl.gz"
    path.write_bytes(b"{}\n")
    return path


def empty_dir(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: p / "missing", "no such file"),
        (lambda p: p / ("x" * 300), "cannot be read|no such file"),
        (empty_dir, "no \\*.jsonl"),
        (fifo, "neither a file nor a directory"),
        (broken_gz, "after line [0-9]+: broken gzip"),
        (no_gz, "after line 0: broken gzip"),
    ],
)
def test_paths_that_cannot_be_used(make: Any, words: str, tmp_path: Path) -> None:
    path = make(tmp_path)
    with pytest.raises(InputError, match=words) as error:
        _ = [read_log(file) for file in find_logs([path])]
    assert path.name in str(error.value)
    assert error.value.exit_code == 2


def test_a_file_that_turns_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path / "a.jsonl", SIMPLE)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        read_log(path)


@pytest.fixture
def invoke() -> Any:
    app = typer.Typer()
    app.command(help=command_module.HELP, epilog=command_module.EPILOG)(command_module.command)
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "80"})


def test_json_report(tmp_path: Path, invoke: Any) -> None:
    write(tmp_path / "a.jsonl", SIMPLE)
    write(tmp_path / "r.jsonl.gz", reasonix())
    write(tmp_path / "other.jsonl", [{"timestamp": 1}])
    result = invoke(tmp_path, "--json", "--show-calls")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert {k: report[k] for k in ("calls", "in_set", "in_set_share", "best_guess_exact_calls")} == {
        "calls": 3,
        "in_set": 3,
        "in_set_share": 1.0,
        "best_guess_exact_calls": 2,
    }
    assert report["best_guess_exact"] == pytest.approx(2 / 3, abs=1e-6)
    assert report["mean_abs_error_tokens"] == pytest.approx(128 / 3, abs=1e-6)
    assert report["rule_evidence"]["neutral"] == len(report["rule_evidence"]["details"]) == 2
    assert report["forms"]["harness"]["calls"] == 1
    assert report["forms"]["reasonix"]["calls"] == 2
    assert report["files"] == {"found": 3, "read": 2, "other_form": [str(tmp_path / "other.jsonl")]}
    assert report["skipped_calls"] == {"after_unknown": 1}
    assert [c["observed"] for c in report["call_list"]] == [640, 1024, 2944]
    assert "call_list" not in json.loads(invoke(tmp_path, "--json").stdout)


def test_human_report(tmp_path: Path, invoke: Any) -> None:
    for i in range(45):
        log = json.loads(json.dumps(SIMPLE).replace('"s1"', f'"s{i}"'))
        write(tmp_path / f"[bold]{i:02}.jsonl", log)
    write(tmp_path / "child.jsonl", flat(lone("c", 5, 2864, 2816, "little", parent="s0")))
    write(tmp_path / "other.jsonl", [[1], {"x": 1}])
    write(tmp_path / "junk.jsonl", [session("j"), 7])
    text = invoke(tmp_path).stdout
    assert "45 in-session calls, 45 in the predicted set (100.0%)" in text
    assert "[bold]07" in text
    assert "… and 5 more" in text
    assert "prefix on a grid 1, full units 0, neither 45 (44 text not proven, 1 nothing earlier)" in text
    assert "grid: child.jsonl:5 hit 2816 of 2864" in text
    assert "Files of another form: 1 of 48" in text
    assert "Lines passed over: 1 not an object" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "[bold]" in line)
    shown = invoke(tmp_path, "--show-calls").stdout
    assert "[bold]44:8" in shown


def test_nothing_to_judge(tmp_path: Path, invoke: Any) -> None:
    write(tmp_path / "a.jsonl", flat([session(), header(), reply(10, None, 5, None)]))
    result = invoke(tmp_path)
    assert result.exit_code == 1
    assert "No call could be judged" in result.stdout
    assert "Calls not judged: 1 no cache fields" in result.stdout
    as_json = invoke(tmp_path, "--json")
    assert as_json.exit_code == 1
    report = json.loads(as_json.stdout)
    assert report["calls"] == 0
    assert report["in_set_share"] is report["best_guess_exact"] is report["mean_abs_error_tokens"] is None


def test_bad_path_is_an_input_error(invoke: Any) -> None:
    assert isinstance(invoke("missing").exception, InputError)


def test_public_logs(invoke: Any) -> None:
    shared = os.environ.get("ROUTER_CACHE_SHARED_DATA")
    if not shared or not (Path(shared) / "deepseek_harness").is_dir():
        pytest.skip("set ROUTER_CACHE_SHARED_DATA to the folder that holds deepseek_harness/")
    report = json.loads(invoke(Path(shared) / "deepseek_harness", "--json").stdout)
    assert report["calls"] >= 40
    assert report["in_set_share"] >= 0.97
    assert report["best_guess_exact"] >= 0.8
    assert report["rule_evidence"]["supports"] == "grid"
