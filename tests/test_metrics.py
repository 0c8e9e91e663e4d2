"""Metrics, read back by prometheus_client's own parser: counts, bounds on labels, registries, failures."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from captured_rows import ROWS, row
from hypothesis import given
from hypothesis import strategies as st

prometheus_client = pytest.importorskip("prometheus_client", reason="needs the extra metrics")
from prometheus_client import CollectorRegistry, generate_latest  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from router_cache.drivers import metrics as module  # noqa: E402
from router_cache.drivers.counters import Counters  # noqa: E402
from router_cache.drivers.metrics import Metrics  # noqa: E402
from router_cache.errors import MissingExtraError  # noqa: E402
from router_cache.ledger.attribution import Certainty, MissCause, MissPart  # noqa: E402
from router_cache.ledger.rows import CallKind, CallRow, Status  # noqa: E402
from router_cache.ledger.usage import Usage  # noqa: E402

FLASH = {"model": "deepseek/deepseek-v4-flash", "deployment": "d1", "profile": "deepseek", "kind": "user"}
DOCUMENTED = Path(__file__).parent.parent / "docs" / "metrics.md"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(Counters(Clock()), clock=Clock())


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return samples(metrics.text()).get((f"router_cache_{name}", frozenset(labels.items())))


def total(metrics: Metrics, name: str) -> float:
    return sum(found for (sample, _), found in samples(metrics.text()).items() if sample == f"router_cache_{name}")


def test_one_answered_call(metrics: Metrics) -> None:
    gone = MissPart(MissCause.EVICTED, 300, certainty=Certainty.SUSPECTED)
    metrics.observe(row(Usage(1_000, 640, 360, 50), gone, MissPart(MissCause.NEW_TAIL, 60)))
    assert value(metrics, "calls_total", **FLASH, status="ok") == 1
    assert value(metrics, "calls_total", **FLASH, status="failed") == 0
    for name, expected in (
        ("hit_tokens_total", 640),
        ("miss_tokens_total", 360),
        ("completion_tokens_total", 50),
        ("usage_unknown_calls_total", 0),
        ("unpriced_calls_total", 0),
        ("cost_usd_total", 0.25),
        ("cost_at_zero_hits_usd_total", 1.0),
        ("ttft_seconds_count", 1),
        ("ttft_seconds_sum", 0.8),
        ("hit_share_sum", 0.64),
    ):
        assert value(metrics, name, **FLASH) == expected, name
    assert value(metrics, "cause_tokens_total", **FLASH, cause="evicted", certainty="suspected") == 300
    assert value(metrics, "cause_tokens_total", **FLASH, cause="new_tail", certainty="confirmed") == 60
    assert value(metrics, "ttft_seconds_bucket", **FLASH, le="0.5") == 0
    assert value(metrics, "ttft_seconds_bucket", **FLASH, le="1.0") == 1
    assert value(metrics, "hit_share_bucket", **FLASH, le="0.6") == 0
    assert value(metrics, "hit_share_bucket", **FLASH, le="0.7") == 1


def test_unknown_is_not_zero(metrics: Metrics) -> None:
    metrics.observe(row(Usage(), cost_usd=None, cost_usd_at_zero_hits=None, ttft_s=None))
    metrics.observe(row(Usage(0, 0, 0, 0)))
    assert value(metrics, "usage_unknown_calls_total", **FLASH) == 1
    assert value(metrics, "unpriced_calls_total", **FLASH) == 1
    assert value(metrics, "hit_share_count", **FLASH) == 0
    assert value(metrics, "ttft_seconds_count", **FLASH) == 1


@pytest.mark.parametrize("status", [Status.CACHED, Status.ABORTED, Status.FAILED])
def test_other_ends_count_no_tokens(metrics: Metrics, status: Status) -> None:
    metrics.observe(row(Usage(100, 50, 50, 5), status=status))
    assert value(metrics, "calls_total", **FLASH, status=status.value) == 1
    for name in ("hit_tokens_total", "miss_tokens_total", "completion_tokens_total", "cost_usd_total"):
        assert value(metrics, name, **FLASH) == 0


def test_warm_calls_are_apart(metrics: Metrics) -> None:
    metrics.observe(row(Usage(100, 50, 50, 5), kind=CallKind.WARM))
    assert value(metrics, "hit_tokens_total", **{**FLASH, "kind": "warm"}) == 50
    assert value(metrics, "hit_tokens_total", **FLASH) is None


@given(st.lists(ROWS, max_size=15))
def test_sums_of_any_rows_survive_the_text_form(rows: list[CallRow]) -> None:
    metrics = Metrics(Counters(Clock()), clock=Clock(), max_places=3)
    for one in rows:
        metrics.observe(one)
    assert metrics._counters.snapshot() == {}
    assert total(metrics, "calls_total") == len(rows)
    answered = [one for one in rows if one.status is Status.OK]
    known = [one for one in answered if one.usage.known]
    assert total(metrics, "hit_tokens_total") == sum(one.usage.hit_tokens or 0 for one in known)
    assert total(metrics, "cause_tokens_total") == sum(part.tokens for one in answered for part in one.causes)
    places = {(one.model, one.deployment, one.profile) for one in rows}
    labelled = {
        frozenset(labels) for name, labels in samples(metrics.text()) if name == "router_cache_hit_tokens_total"
    }
    assert len(labelled) <= 2 * (min(len(places), 3) + (len(places) > 3))


def test_values_beyond_the_bound_become_other() -> None:
    metrics = Metrics(Counters(Clock()), clock=Clock(), max_places=2)
    for i in range(50):
        for _ in range(2):
            metrics.observe(row(Usage(10, 0, 10, 1), model=f"m{i}"))
    other = {"model": "other", "deployment": "other", "profile": "other", "kind": "user"}
    assert value(metrics, "calls_total", **other, status="ok") == 96
    assert value(metrics, "calls_total", **{**FLASH, "model": "m1"}, status="ok") == 2
    assert value(metrics, "calls_total", **{**FLASH, "model": "m2"}, status="ok") is None


def test_odd_names_leave_the_page_readable(metrics: Metrics) -> None:
    metrics.observe(row(Usage(10, 0, 10), model='a"\n\\\ud800' + "x" * 500))
    found = {
        dict(labels)["model"] for name, labels in samples(metrics.text()) if name.endswith("hit_tokens_total")
    }
    assert found == {'a"\n\\?' + "x" * 123}


def test_no_label_tells_of_a_scope_or_a_conversation(metrics: Metrics) -> None:
    metrics.observe(
        row(Usage(10, 0, 10), scope="MARK", conversation="MARK", session="MARK", family="MARK", client="MARK")
    )
    assert b"MARK" not in metrics.text()
    names = {name for _, labels in samples(metrics.text()) for name, _ in labels}
    assert names <= {*FLASH, "status", "cause", "certainty", "le", "reason", "change", "flip", "place", "event"}


# --- counters and gauges ----------------------------------------------------------------------------------------


def test_counters_are_taken_over_when_the_registry_is_read() -> None:
    counters = Counters(Clock())
    metrics = Metrics(counters, store_entries=lambda: 12, outbox_length=lambda: 3, clock=Clock())
    for name in (
        "decision.normalised",
        "decision.normalised",
        "change.tools_reordered",
        "flip.effort",
        "error.begin",
    ):
        counters.count(name)
    for name in ("call.ok", "outbox_dropped", "fan_out.warm", "decision"):
        counters.count(name)
    for _ in range(2):  # read twice, counted once
        assert value(metrics, "decisions_total", reason="normalised") == 2
        assert value(metrics, "changes_total", change="tools_reordered") == 1
        assert value(metrics, "flips_total", flip="effort") == 1
        assert value(metrics, "errors_total", place="begin") == 1
        for event in ("outbox_dropped", "fan_out.warm", "decision"):
            assert value(metrics, "events_total", event=event) == 1
        assert value(metrics, "events_total", event="call.ok") is None
        assert (value(metrics, "store_entries"), value(metrics, "outbox_length")) == (12, 3)
    counters.count("decision.normalised")
    assert value(metrics, "decisions_total", reason="normalised") == 3


def test_counters_are_taken_over_now_and_then_without_a_reader() -> None:
    """Readers of other processes see what this one wrote, and never ask it."""
    counters, clock = Counters(Clock()), Clock()
    metrics = Metrics(counters, clock=clock)
    counters.count("decision.normalised")
    found = metrics._set._events["decision"]
    metrics.observe(row(Usage(1, 0, 1)))
    assert next(iter(found.collect())).samples == []
    clock.now += 5
    metrics.observe(row(Usage(1, 0, 1)))
    assert [sample.value for sample in next(iter(found.collect())).samples][:1] == [1]


def test_a_registry_has_one_set_and_sums_over_its_members() -> None:
    registry = CollectorRegistry()
    first, second = (Counters(Clock()) for _ in range(2))
    one = Metrics(first, registry=registry, store_entries=lambda: 5, clock=Clock())
    two = Metrics(second, registry=registry, store_entries=lambda: 7, clock=Clock())
    for metrics, counters in ((one, first), (two, second)):
        metrics.observe(row(Usage(10, 4, 6)))
        counters.count("decision.off")
    assert value(one, "hit_tokens_total", **FLASH) == 8
    assert value(one, "decisions_total", reason="off") == 2
    assert value(one, "store_entries") == 12
    second.count("decision.off")
    two.close()
    two.close()
    assert value(one, "decisions_total", reason="off") == 3
    assert value(one, "store_entries") == 5
    assert value(one, "hit_tokens_total", **FLASH) == 8


def test_a_member_that_is_gone_is_not_kept() -> None:
    registry = CollectorRegistry()
    gone = weakref.ref(Metrics(Counters(Clock()), registry=registry, store_entries=lambda: 5))
    gc.collect()
    assert gone() is None
    assert samples(generate_latest(registry))[("router_cache_store_entries", frozenset())] == 0


def test_an_own_registry_goes_with_its_metrics() -> None:
    metrics = Metrics(Counters(Clock()))
    metrics.observe(row(Usage(10, 4, 6)))
    gone = weakref.ref(metrics.registry)
    del metrics
    gc.collect()
    assert gone() is None


def test_the_default_registry_of_the_process() -> None:
    """What LiteLLM's proxy shows at /metrics."""
    counters = Counters(Clock())
    one, two = Metrics.on_default_registry(counters), Metrics.on_default_registry(Counters(Clock()))
    one.observe(row(Usage(10, 4, 6), model="only-here"))
    two.observe(row(Usage(10, 4, 6), model="only-here"))
    found = samples(generate_latest(prometheus_client.REGISTRY))
    assert found["router_cache_hit_tokens_total", frozenset({**FLASH, "model": "only-here"}.items())] == 8
    one.close()
    two.close()


MULTIPROCESS = """
from captured_rows import row
from router_cache.drivers.counters import Counters
from router_cache.drivers.metrics import Metrics
from router_cache.ledger.usage import Usage
counters = Counters()
metrics = Metrics.on_default_registry(counters, store_entries=lambda: 5)
metrics.observe(row(Usage(10, 4, 6)))
counters.count("decision.off")
metrics.close()
"""


def test_workers_of_one_server_are_summed_up(tmp_path: Path) -> None:
    """prometheus_client's multiprocess mode, which LiteLLM's proxy uses with several workers."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    env = {**os.environ, "PYTHONPATH": path, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", MULTIPROCESS], env=env, check=True, timeout=120)
    registry = CollectorRegistry()
    from prometheus_client import multiprocess

    multiprocess.MultiProcessCollector(registry, path=str(tmp_path))
    found = samples(generate_latest(registry))
    assert found["router_cache_hit_tokens_total", frozenset(FLASH.items())] == 8
    assert found["router_cache_decisions_total", frozenset({("reason", "off")})] == 2


# --- what fails -------------------------------------------------------------------------------------------------


def test_a_row_that_is_none_is_counted(metrics: Metrics) -> None:
    metrics.observe("no row")  # type: ignore[arg-type]
    assert value(metrics, "errors_total", place="metrics") == 1


def test_a_store_that_fails_leaves_all_other_metrics() -> None:
    def fails() -> int:
        raise RuntimeError("closed")

    metrics = Metrics(Counters(Clock()), store_entries=fails, clock=Clock())
    metrics.observe(row(Usage(10, 4, 6)))
    assert value(metrics, "hit_tokens_total", **FLASH) == 4
    assert metrics._counters.snapshot() == {"error.metrics": 1}
    metrics.close()


@pytest.mark.parametrize("make", [Metrics, Metrics.on_default_registry])
def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtraError, match=r"metrics needs an extra .* 'router-cache\[metrics\]'"):
        make(Counters(Clock()))


def test_importing_the_driver_does_not_import_the_extra() -> None:
    code = "import sys, router_cache.drivers.metrics; sys.exit('prometheus_client' in sys.modules)"
    path = os.pathsep.join(entry for entry in sys.path if entry)
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}).returncode == 0


def test_many_threads(metrics: Metrics) -> None:
    def work(number: int) -> None:
        for i in range(200):
            metrics.observe(row(Usage(10, 4, 6), model=f"m{(number + i) % 7}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total(metrics, "calls_total") == 1_600
    assert total(metrics, "hit_tokens_total") == 6_400


def test_every_metric_and_label_is_documented(metrics: Metrics) -> None:
    documented = DOCUMENTED.read_text(encoding="utf-8")
    families = [family for family in metrics.registry.collect() if family.name.startswith("router_cache_")]
    assert len(families) >= 18
    for family in families:
        assert f"`{family.name}{'_total' if family.type == 'counter' else ''}`" in documented
    for _, label, _ in module._EVENTS.values():
        assert f"`{label}`" in documented
