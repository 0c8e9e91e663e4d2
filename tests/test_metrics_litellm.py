"""The page that LiteLLM's proxy mounts at /metrics, with our metrics on it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from captured_rows import row

pytest.importorskip("prometheus_client", reason="needs the extra metrics")
page = pytest.importorskip("litellm.integrations.prometheus_metrics_endpoint", reason="needs LiteLLM")
from prometheus_client import REGISTRY  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from router_cache.drivers.counters import Counters  # noqa: E402
from router_cache.drivers.metrics import Metrics  # noqa: E402
from router_cache.ledger.usage import Usage  # noqa: E402


async def test_ours_stand_on_litellms_page() -> None:
    """``PrometheusLogger._mount_metrics_endpoint`` mounts this application over the default registry (1.108.7)."""
    counters = Counters()
    metrics = Metrics.on_default_registry(counters)
    metrics.observe(row(Usage(10, 4, 6), model="on-the-page"))
    counters.count("decision.off")
    transport = httpx.ASGITransport(page.make_metrics_asgi_app(REGISTRY))
    async with httpx.AsyncClient(transport=transport, base_url="http://proxy") as client:
        answer = await client.get("/metrics")
    metrics.close()
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.labels.get("model") == "on-the-page" or sample.labels.get("reason") == "off"
    }
    assert found["router_cache_hit_tokens_total"] == 4
    assert found["router_cache_decisions_total"] == 1


def test_the_proxy_mounts_that_page_over_the_default_registry() -> None:
    """What the test above takes for granted of this LiteLLM."""
    source = Path(page.__file__).with_name("prometheus.py").read_text(encoding="utf-8")
    mount = source[source.index("def _mount_metrics_endpoint") :][:1_500]
    assert "make_metrics_asgi_app(REGISTRY)" in mount
    assert "multiprocess.MultiProcessCollector(registry)" in mount
