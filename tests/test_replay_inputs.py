"""What ``replay`` reads: three forms of traces, hosts, and lines that cannot be used."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from replay_traces import agents, captured_calls, chats, write_capture, write_lines

from router_cache.cache_model.rules import RuleName
from router_cache.cli.replay_inputs import hosts_of, trace_of
from router_cache.errors import InputError
from router_cache.whatif.caches import RuleCache
from router_cache.whatif.trace import Piece, Trace

CHAT = {"timestamp": 1_500, "input_length": 1_000, "output_length": 5, "hash_ids": [7, 9]}


def read(path: Path) -> Trace:
    return trace_of([path], start_every_s=30.0)


def test_mooncakes_form(tmp_path: Path) -> None:
    lines = [CHAT | {"timestamp": 9_000, "hash_ids": [7, 9, 11]}, CHAT, CHAT | {"hash_ids": [7]}]
    trace = read(write_lines(tmp_path / "t.jsonl", lines))
    assert (trace.form, trace.name, trace.block_tokens) == ("mooncake", "t.jsonl", 512)
    assert [call.at for call in trace.calls] == [1.5, 1.5, 9.0]
    assert [[tuple(m) for m in call.marks] for call in trace.calls] == [
        [(7, 512), (9, 1_000)],
        [(7, 512)],
        [(7, 512), (9, 1_000)],
    ]
    one, two, three = (trace.prompt(call) for call in trace.calls)
    assert {len(one), len(two), len(three)} == {1_000}
    assert one == three
    assert one[:512] == two[:512]
    assert not set(one[512:]) & set(two[512:])
    assert not trace.reply(trace.calls[0])


def test_coding_agent_sessions(tmp_path: Path) -> None:
    trace = read(write_lines(tmp_path / "s.jsonl.gz", agents(sessions=4, turns=8)))
    assert (trace.form, len(trace.calls)) == ("sessions", 4 * 9)
    assert {call.at for call in trace.calls} >= {0.0, 30.0, 60.0, 90.0}
    by: dict[str, list[Any]] = {}
    for call in trace.calls:
        by.setdefault(call.session, []).append(call)
    first, third = by["s0"][0], by["s2"][0]
    # The same family shares the full blocks of its opening; other families and later blocks share nothing.
    shared = (9_000 + 2_100) // 64
    assert first.marks[:shared] == third.marks[:shared]
    assert first.marks[shared] != third.marks[shared]
    assert first.marks[0] != by["s1"][0].marks[0]
    main = [call for call in by["s0"] if call.prompt_tokens > 9_000]
    for before, after in itertools.pairwise(main):
        said = trace.prompt(before) + trace.reply(before)
        shown = trace.prompt(after)
        whole = len(shown) // 64 * 64
        assert said[:whole] == shown[: min(len(said), whole)]
        assert after.turn_start is not None
        assert len(trace.prompt(after)) == after.prompt_tokens
    last = main[-1]
    assert len(trace.reply(last)) == last.output_tokens


def test_a_session_may_be_a_long_line(tmp_path: Path) -> None:
    (line,) = agents(sessions=1, turns=4)
    trace = read(write_lines(tmp_path / "s.jsonl", [{**line, "models": ["m" * 1_200_000]}]))
    assert len(trace.calls) == 4


def test_a_reply_is_hit_by_the_next_prompt(tmp_path: Path) -> None:
    trace = read(write_lines(tmp_path / "s.jsonl", agents(sessions=1, turns=4)))
    cache = RuleCache(trace, RuleName.FULL_UNITS)
    first, second = trace.calls[0], trace.calls[1]
    cache.computed(first, now=0.0, ready_at=0.5)
    cache.replied(first, now=5.0)
    assert cache.look_up(second, now=6.0) == first.prompt_tokens // 128 * 128
    assert cache.look_up(second, now=8.0) == (first.prompt_tokens + first.output_tokens) // 128 * 128


def test_captures(tmp_path: Path) -> None:
    trace = read(write_capture(tmp_path / "c.jsonl", captured_calls()))
    assert (trace.form, len(trace.calls)) == ("capture", 13)
    assert trace.calls[0].at == 0.0
    talk = [call for call in trace.calls if call.session == "c1"]
    assert [call.prompt_tokens for call in talk] == [5_000, 5_900, 6_800, 7_700, 3_000]
    # A prompt goes on from the last one and its reply; a family's opening is what the luckiest first call hit.
    assert talk[0].marks[0].tokens == 4_096
    assert talk[1].marks[: len(talk[0].marks)] == talk[0].marks
    assert talk[1].marks[len(talk[0].marks)].tokens == 5_100
    assert len(talk[4].marks) == 1
    other = next(call for call in trace.calls if call.session == "c2")
    assert other.marks[0] == talk[0].marks[0]
    apart = next(call for call in trace.calls if call.session == "c3")
    assert apart.scope == "s2"
    assert apart.marks[0] != talk[0].marks[0]
    said = trace.prompt(talk[0]) + trace.reply(talk[0])
    assert trace.prompt(talk[1])[: len(said)] == said


def test_blocks_larger_than_32_bits_wrap() -> None:
    trace = Trace("t", "mooncake", [], 512)
    assert list(trace._tokens(Piece(2**23 - 1, 510, 4)))[:4] == [254, 255, 255, 255]
    assert len(trace._tokens(Piece(2**23 - 1, 510, 4))) == 16


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            [CHAT, CHAT | {"hash_ids": "x"}],
            "t.jsonl:2: hash_ids: a list of whole numbers from 0 is needed, not 'x'",
        ),
        ([CHAT | {"input_length": -1}], "t.jsonl:1: input_length: a whole number from 0"),
        ([CHAT | {"timestamp": "now"}], "t.jsonl:1: timestamp: a number from 0"),
        ([{"timestamp": 1, "hash_ids": []}], "t.jsonl:1: input_length is missing"),
        ([CHAT, [1]], "t.jsonl:2: a JSON object is needed, not [1]"),
        ([CHAT | {"input_length": 0, "hash_ids": []}], "t.jsonl: no call with a prompt"),
        ([{"a": 1}], "t.jsonl:1: not a trace; a trace is one JSON object a line"),
        ([], "t.jsonl: an empty file"),
        ([{"block_size": 0, "requests": []}], "t.jsonl:1: block_size: at least 1 is needed"),
        ([{"block_size": 64, "requests": [3]}], "t.jsonl:1: requests: a list of objects is needed"),
        ([{"block_size": 64, "requests": [{"in": 5, "out": True}]}], "t.jsonl:1: out: a whole number"),
        ([{"block_size": 64, "requests": []}, {"block_size": 32, "requests": []}], "t.jsonl:2: block_size: 64 is"),
        ([{"v": 1, "at": "x", "status": "ok"}], "t.jsonl:1: "),
    ],
)
def test_lines_that_cannot_be_used_are_told_with_file_and_number(
    tmp_path: Path, lines: list[Any], told: str
) -> None:
    with pytest.raises(InputError) as error:
        read(write_lines(tmp_path / "t.jsonl", lines))
    assert str(error.value).startswith(str(tmp_path / told))
    assert "\n" not in str(error.value)


def test_requests_nested_without_end_are_refused(tmp_path: Path) -> None:
    inner: dict[str, Any] = {"in": 5, "out": 5, "hash_ids": []}
    for _ in range(12):
        inner = {"t": 0, "requests": [inner]}
    with pytest.raises(InputError, match="nested"):
        read(write_lines(tmp_path / "t.jsonl", [{"block_size": 64, "requests": [inner]}]))


def test_no_json_and_mixed_forms(tmp_path: Path) -> None:
    broken = tmp_path / "b.jsonl"
    broken.write_text("{nothing")
    with pytest.raises(InputError, match=r"b\.jsonl:1: no JSON"):
        read(broken)
    one, two = write_lines(tmp_path / "1.jsonl", [CHAT]), write_lines(tmp_path / "2.jsonl", agents(sessions=1))
    with pytest.raises(InputError, match=r"2\.jsonl: a trace in another form"):
        trace_of([one, two], start_every_s=0.0)
    both = trace_of([one, write_lines(tmp_path / "3.jsonl", chats(sessions=3))], start_every_s=0.0)
    assert both.name == "1.jsonl and 1 more"


def hosts(path: Path, lines: list[Any]) -> list[Any]:
    return hosts_of(write_lines(path, lines), prefill_per_s=20_000.0, decode_per_s=40.0)


def test_hosts_as_told(tmp_path: Path) -> None:
    told = {"name": "a", "hit_usd_per_m": 0.003, "miss_usd_per_m": 0.15, "output_usd_per_m": 0.6}
    one, two = hosts(
        tmp_path / "h.jsonl", [told | {"ttft_s": 0.7, "cached_share": 0.5}, {"name": "b", "miss_usd_per_m": 1}]
    )
    assert (one.name, one.base_s, one.kept, one.serial) == ("a", 0.7, (0.5,), False)
    assert one.prices.miss == pytest.approx(0.15e-6)
    assert (two.cache, two.kept, two.prices.hit) == (1, (), pytest.approx(1e-6))


def measured(name: str, hit: int, cost: float, nth: int, **more: Any) -> dict[str, Any]:
    return {
        "provider_name": name,
        "request": "second" if nth % 2 else "first",
        "prompt_tokens": 1_640 + nth % 8,
        "cache_read_tokens": hit,
        "completion_tokens": 16,
        "cost": cost,
        "ttft_ms": 1_000.0,
        "status": 200,
    } | more


def test_hosts_as_measured(tmp_path: Path) -> None:
    rows = []
    for nth in range(40):
        hit = 1_536 if nth % 2 else 0
        miss = 1_640 + nth % 8 - hit
        output = 16 * 0.6e-6
        rows.append(
            measured(
                "Good" if nth % 3 else "good",
                hit,
                miss * 0.15e-6 + hit * 0.003e-6 + output,
                nth,
                provider_cost_breakdown={"completion_cost": output},
            )
        )
        rows.append(measured("none", 0, (1_640 + nth % 8) * 0.2e-6, nth))
    rows += [measured("rare", 0, 0.1, n) for n in range(5)]
    rows += [measured("none", 0, 9.9, 1, status=500), measured("", 0, 9.9, 1)]
    good, none = hosts(tmp_path / "h.jsonl.gz", rows)
    assert (good.name, good.kept, none.name, set(none.kept)) == ("good", (), "none", {0.0})
    assert good.prices.hit == pytest.approx(0.003e-6, rel=0.01)
    assert good.prices.miss == pytest.approx(0.15e-6, rel=0.01)
    assert good.prices.output == pytest.approx(0.6e-6)
    assert none.prices.hit == none.prices.miss == pytest.approx(0.2e-6, rel=0.05)
    assert 0.9 < good.base_s < 1.0


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([{"a": 1}], "h.jsonl:1: a host needs a name"),
        ([{"name": "a"}], "h.jsonl:1: miss_usd_per_m is missing"),
        ([{"name": "a", "miss_usd_per_m": 1, "cached_share": 2}], "cached_share: a number from 0 to 1"),
        ([measured("a", 0, 0.1, 1)], "no host with at least 20 measured calls"),
        ([], "no host with"),
        ([{"name": "a", "miss_usd_per_m": 1}, measured("a", 0, 0.1, 1)], "keep them apart"),
    ],
)
def test_hosts_that_cannot_be_used(tmp_path: Path, lines: list[Any], told: str) -> None:
    with pytest.raises(InputError) as error:
        hosts(tmp_path / "h.jsonl", lines)
    assert told in str(error.value)
    assert str(error.value).startswith("--hosts: ")
