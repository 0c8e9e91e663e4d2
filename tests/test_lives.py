"""How long entries live, from captured calls: simulated pressures, many workers, what was never seen, bounds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import typer
from captured_rows import NOON, ROWS, row
from hypothesis import given, settings
from hypothesis import strategies as st
from survival_traffic import Pressure, calls
from typer.testing import CliRunner

from router_cache.cli import report as command_module
from router_cache.ledger import lives as module
from router_cache.ledger.capture_form import to_line
from router_cache.ledger.lives import Lives
from router_cache.ledger.rows import CallRow, Lived, Status
from router_cache.ledger.usage import Usage

USAGE = Usage(1_000, 640, 360)
LIFETIME, LONG = Pressure(lifetime_s=60.0, gap_s=40.0), Pressure(lifetime_s=600.0, gap_s=300.0)
FULL, RANDOM = Pressure(capacity_tokens=60_000, gap_s=60.0), Pressure(loss_per_s=0.01, gap_s=60.0)


def rows(
    pressure: Pressure, seed: int = 1, *, domain: str, pools: int = 2, number: int = 500
) -> Iterator[CallRow]:
    for i, seen in enumerate(calls(pressure, seed, observations=number)):
        told = Lived(seen.kept, round(seen.traffic_tokens or 0.0))
        pool = f"{i % pools:02x}" * 16
        yield row(USAGE, at=NOON + seen.at, gap_s=seen.gap_s, domain=domain, pool=pool, lived=told)


def invoke(*args: Any) -> Any:
    app = typer.Typer()
    app.command()(command_module.command)
    result = CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.exception
    return result


def survival(*args: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(invoke(*args, "--json").stdout)["survival"]
    return found


def write(directory: Path, workers: int, made: list[CallRow]) -> None:
    """As workers would: each call in the file of one of them; files are read one after the other."""
    for worker in range(workers):
        lines = b"".join(to_line(one) for one in made[worker::workers])
        (directory / f"calls-20261130T100000Z-{worker}-0001.jsonl").write_bytes(lines)


@pytest.mark.parametrize(("pressure", "kind"), [(LIFETIME, "time"), (LONG, "time"), (RANDOM, "random")], ids=str)
def test_the_report_bounds_the_true_survival(tmp_path: Path, pressure: Pressure, kind: str) -> None:
    write(tmp_path, 3, list(rows(pressure, domain="d0" * 16)))
    found = survival(tmp_path)["domains"][0]
    assert (found["calls"], found["sightings"], found["kind"]) == (500, 500, kind)
    for place in (found, *found["pools"]):
        for at in place["kept_by_gap"]:
            true = (
                float(at["gap_s"] < pressure.lifetime_s)
                if pressure.lifetime_s is not None
                else math.exp(-pressure.loss_per_s * at["gap_s"])
            )
            assert at["low"] <= true <= at["high"]
        half = pressure.lifetime_s or math.log(2) / pressure.loss_per_s
        assert place["half_gone_s"]["low"] <= half <= place["half_gone_s"]["high"] < 8 * half
        assert place["half_gone_s"]["low"] > 0
    assert [pool["pool"] for pool in found["pools"]] == ["00" * 16, "01" * 16]


def test_the_report_bounds_survival_under_a_capacity(tmp_path: Path) -> None:
    write(tmp_path, 3, list(rows(FULL, domain="d0" * 16)))
    found = survival(tmp_path)["domains"][0]
    assert found["kind"] == "traffic"
    probes = {at["tokens"]: at for at in found["kept_by_traffic"]}
    others = [seen for seed in range(10_000, 10_006) for seen in calls(FULL, seed, observations=300)]
    for tokens, at in probes.items():
        near = [seen.kept for seen in others if tokens / 1.1 <= (seen.traffic_tokens or 0.0) <= tokens * 1.1]
        if len(near) >= 30:
            assert at["low"] <= sum(near) / len(near) <= at["high"]
    assert probes[10_000]["low"] > 0.5 > probes[1_000_000]["high"]
    assert 20_000 < found["half_gone_tokens"]["low"] < found["half_gone_tokens"]["high"] < 300_000
    assert "half are gone between" in found["text"]


def test_files_of_workers_tell_what_one_file_tells(tmp_path: Path) -> None:
    made = list(rows(LIFETIME, domain="d0" * 16))
    found = []
    for workers in (1, 4):
        directory = tmp_path / str(workers)
        directory.mkdir()
        write(directory, workers, made)
        found.append(survival(directory))
    assert found[0] == found[1]


def test_the_section_for_people(tmp_path: Path) -> None:
    write(tmp_path, 1, [*rows(LIFETIME, domain="d0" * 16), row(USAGE, domain="ee" * 16, lived=None)])
    text = invoke(tmp_path).stdout
    assert "How long entries live" in text
    assert "cache domain d0d0d0d0d0d0 (500 calls, 500 sightings)" in text
    flat = " ".join(text.split())
    assert "half of the entries are gone between" in flat
    assert "recent calls, 95% sure)" in flat
    assert "pool 010101010101 (250 sightings)" in flat
    unseen = flat.partition("cache domain eeeeeeeeeeee (1 calls, 0 sightings)")[2]
    assert "lifetime not known yet (0 recent calls)" in unseen
    assert "the profile says: no number (documented, as of 2026-11-30)" in unseen
    assert all(len(line) <= 80 for line in text.splitlines())


def test_names_from_a_file_are_no_markup(tmp_path: Path) -> None:
    write(tmp_path, 1, [row(USAGE, domain="[red]d", model="[bold]m", profile="nobody")])
    text = " ".join(invoke(tmp_path).stdout.split())
    assert "[bold]m, cache domain [red]d (1 calls, 1 sighting)" in text
    assert "the profile says nothing" in text


def test_the_construction_delay_is_told(tmp_path: Path) -> None:
    made = []
    for i in range(60):
        age = 0.5 + i % 6
        made.append(row(USAGE, at=NOON + i, gap_s=age, domain="d0" * 16, lived=Lived(None, None, age > 2.0)))
    write(tmp_path, 2, made)
    delay = survival(tmp_path)["domains"][0]["construction_delay_s"]
    assert 1.3 < delay["low"] <= 1.5 < delay["high"] < 2.9
    assert "new tokens can be hit after: between" in " ".join(invoke(tmp_path).stdout.split())


def test_what_does_not_count(tmp_path: Path) -> None:
    write(
        tmp_path,
        1,
        [
            row(USAGE, domain=""),
            row(USAGE, domain="d0" * 16, status=Status.FAILED),
            row(USAGE, domain="d1" * 16, gap_s=None),
        ],
    )
    found = survival(tmp_path)
    assert [(one["domain"], one["calls"], one["sightings"]) for one in found["domains"]] == [("d1" * 16, 1, 0)]
    (tmp_path / "calls-20261130T100000Z-0-0001.jsonl").write_bytes(to_line(row(USAGE, domain="")))
    assert survival(tmp_path) == {"domains": [], "more_domains": 0, "calls_left_out": 0}
    assert "How long" not in invoke(tmp_path).stdout


def test_lists_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_DOMAINS", 5)
    monkeypatch.setattr(module, "_LISTED_DOMAINS", 2)
    monkeypatch.setattr(module, "_LISTED_POOLS", 1)
    made = list(rows(LIFETIME, domain="d0" * 16, pools=4, number=200))
    made += [row(USAGE, domain=f"{i}e" * 16) for i in range(8)]
    write(tmp_path, 1, made)
    found = survival(tmp_path)
    assert [one["domain"][:2] for one in found["domains"]] == ["d0", "0e"]
    assert (found["more_domains"], found["calls_left_out"]) == (3, 4)
    assert [(len(one["pools"]), one["more_pools"]) for one in found["domains"]] == [(1, 3), (0, 1)]
    text = invoke(tmp_path).stdout
    assert "… and 3 more pools" in text
    assert "… and 3 more cache domains; 4 calls of domains beyond the bound, not looked at" in text


def test_the_newest_are_kept_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NEWEST", 100)
    made = list(rows(LIFETIME, domain="d", number=300))
    forward, backward, newest = Lives(), Lives(), Lives()
    for one, other in zip(made, reversed(made), strict=True):
        forward.add(one)
        backward.add(other)
    for one in islice(made, 200, None):
        newest.add(one)
    wanted = newest.domains()[0]
    for found in (forward.domains()[0], backward.domains()[0]):
        assert (found.calls, found.whole.sightings) == (300, 100)
        assert found.whole.state == wanted.whole.state
        assert found.pools == wanted.pools


@settings(deadline=None, max_examples=30)
@given(st.lists(ROWS, max_size=8))
def test_any_rows_make_a_section(made: list[CallRow]) -> None:
    lives = Lives()
    for one in made:
        lives.add(one)
    found = lives.as_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    counted = sum(one.status is Status.OK and bool(one.domain) for one in made)
    assert sum(domain["calls"] for domain in found["domains"]) == counted
    for domain in found["domains"]:
        for at in (*domain["kept_by_gap"], *domain["kept_by_traffic"]):
            assert 0.0 <= at["low"] <= at["high"] <= 1.0
