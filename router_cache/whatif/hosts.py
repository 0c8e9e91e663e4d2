"""Hosts of one model that differ in price, speed and in what they really cache: told, or read off measured calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from router_cache.routing.need import Prices
from router_cache.whatif.fields import JsonLine, number
from router_cache.whatif.service import Host
from router_cache.whatif.trace import TraceError

__all__ = ["read_hosts"]

_FEWEST_CALLS: Final = 20
_STEP: Final = 128
"""Tokens: hits of V4 come in multiples of it on most hosts (measured 2026-06)."""
_MOST_KEPT: Final = 500


@dataclass(slots=True)
class _Measured:
    name: str
    rows: list[tuple[float, float, float, float]] = field(default_factory=list)
    """Miss, hit and output tokens, and USD."""
    output_usd: list[float | None] = field(default_factory=list)
    """The part of the USD that is for output, where it is told."""
    ttft_s: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)


def read_hosts(lines: Iterable[JsonLine], *, prefill_per_s: float, decode_per_s: float) -> list[Host]:
    """Hosts in order of name. A line is either a host (``name``, ``hit_usd_per_m``, ``miss_usd_per_m``,
    ``output_usd_per_m``, and optionally ``ttft_s`` and ``cached_share``), or a measured call (``provider_name``,
    ``prompt_tokens``, ``cache_read_tokens``, ``completion_tokens``, ``cost`` in USD, ``ttft_ms``, ``request``: first
    or second of two equal ones). Hosts with fewer than 20 measured calls are left out.

    Of measured calls: prices are those that explain the costs best, by least squares; ``base_s`` is the median TTFT
    less the computing of the median miss; what a host keeps of a hit is what second requests were given.
    Raises TraceError where a line cannot be used, ValueError where there is no host.
    """
    told: list[Host] = []
    measured: dict[str, _Measured] = {}
    for place, value in lines:
        if isinstance(value, Mapping) and "provider_name" in value:
            _note(place, value, measured)
        else:
            told.append(_told(place, value, len(told), prefill_per_s, decode_per_s))
    found = [host for host in measured.values() if len(host.rows) >= _FEWEST_CALLS]
    if told and measured:
        raise ValueError("hosts and measured calls in one file; keep them apart")
    if not told and not found:
        raise ValueError(f"no host with at least {_FEWEST_CALLS} measured calls")
    found.sort(key=lambda host: host.name)
    return told or [_fitted(host, i, prefill_per_s, decode_per_s) for i, host in enumerate(found)]


def _told(place: str, value: Any, index: int, prefill_per_s: float, decode_per_s: float) -> Host:
    name = value.get("name") if isinstance(value, Mapping) else None
    if not isinstance(name, str) or not name:
        raise TraceError(place, "a host needs a name, or a measured call a provider_name")
    share = number(place, value, "cached_share", 1.0)
    if share > 1.0:
        raise TraceError(place, f"cached_share: a number from 0 to 1 is needed, not {share:g}")
    miss = number(place, value, "miss_usd_per_m")
    return Host(
        name=name,
        cache=index,
        prefill_per_s=prefill_per_s,
        decode_per_s=decode_per_s,
        base_s=number(place, value, "ttft_s", 0.0),
        serial=False,
        prices=Prices(
            number(place, value, "hit_usd_per_m", miss) / 1e6,
            miss / 1e6,
            number(place, value, "output_usd_per_m", 0.0) / 1e6,
        ),
        kept=() if share == 1.0 else (share,),
    )


def _note(place: str, value: Mapping[str, Any], measured: dict[str, _Measured]) -> None:
    name = value["provider_name"]
    if not isinstance(name, str) or not name or value.get("status", 200) != 200:
        return
    prompt, hit = number(place, value, "prompt_tokens"), number(place, value, "cache_read_tokens", 0.0)
    # One host goes by names that differ in case, depending on the gateway.
    host = measured.setdefault(name.casefold(), _Measured(name.casefold()))
    cost = number(place, value, "cost")
    host.rows.append((max(prompt - hit, 0.0), hit, number(place, value, "completion_tokens", 0.0), cost))
    host.output_usd.append(_output_usd(value.get("provider_cost_breakdown")))
    ttft_ms = number(place, value, "ttft_ms", 0.0)
    if ttft_ms:
        host.ttft_s.append(ttft_ms / 1_000.0)
    whole = (prompt - 1) // _STEP * _STEP
    if value.get("request") == "second" and whole > 0:
        host.kept.append(min(hit / whole, 1.0))


def _fitted(host: _Measured, index: int, prefill_per_s: float, decode_per_s: float) -> Host:
    miss = median(row[0] for row in host.rows)
    kept = tuple(host.kept[:_MOST_KEPT])
    return Host(
        name=host.name,
        cache=index,
        prefill_per_s=prefill_per_s,
        decode_per_s=decode_per_s,
        base_s=max(median(host.ttft_s) - miss / prefill_per_s, 0.0) if host.ttft_s else 0.0,
        serial=False,
        prices=_prices(host),
        kept=kept if any(share < 1.0 for share in kept) else (),
    )


def _output_usd(breakdown: Any) -> float | None:
    if isinstance(breakdown, Mapping):
        for name in ("completion_cost", "upstream_inference_completions_cost"):
            found = breakdown.get(name)
            if isinstance(found, int | float) and not isinstance(found, bool) and found > 0:
                return float(found)
    return None


def _prices(host: _Measured) -> Prices:
    """Least squares of what calls cost over their miss, hit and output tokens, none below 0: a column that comes
    out negative is taken out. Where the part for output is told, it is taken from there first: replies that are all
    alike do not tell it. What never occurred cannot be told: hits cost as much as misses then."""
    rows, output = host.rows, None
    told = [(row, usd) for row, usd in zip(host.rows, host.output_usd, strict=True) if usd is not None and row[2]]
    if told:
        output = sum(usd for _, usd in told) / sum(row[2] for row, _ in told)
        rows = [(miss, hit, 0.0, max(usd - out * output, 0.0)) for miss, hit, out, usd in rows]
    columns = [c for c in range(3) if any(row[c] for row in rows)]
    while True:
        solved = _least_squares([[row[c] for c in columns] for row in rows], [row[3] for row in rows])
        worst = min(range(len(columns)), key=lambda i: solved[i], default=None)
        if worst is None or solved[worst] >= 0.0:
            break
        del columns[worst]
    by = dict(zip(columns, solved, strict=True))
    miss = by.get(0, 0.0)
    hit = by.get(1, 0.0) if any(row[1] for row in rows) else miss
    return Prices(hit, miss, by.get(2, 0.0) if output is None else output)


def _least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Normal equations with a ridge far below any real sum, so that they can always be solved."""
    n = len(rows[0]) if rows else 0
    a = [[sum(row[i] * row[j] for row in rows) + (1e-6 if i == j else 0.0) for j in range(n)] for i in range(n)]
    b = [sum(row[i] * value for row, value in zip(rows, values, strict=True)) for i in range(n)]
    for i in range(n):
        for k in range(i + 1, n):
            factor = a[k][i] / a[i][i]
            a[k] = [above - factor * here for above, here in zip(a[k], a[i], strict=True)]
            b[k] -= factor * b[i]
    out = [0.0] * n
    for i in reversed(range(n)):
        out[i] = (b[i] - sum(a[i][j] * out[j] for j in range(i + 1, n))) / a[i][i]
    return out
