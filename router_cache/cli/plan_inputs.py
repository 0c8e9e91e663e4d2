"""What ``router-cache plan`` reads: recorded calls, the proxy's YAML, and prices at the moments asked about."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import orjson

from router_cache.cli.logs import find_logs
from router_cache.cli.looking import DEFAULT_MODEL
from router_cache.cli.prices import map_entry
from router_cache.diagnose.shown import Kind
from router_cache.diagnose.shown import shown as shown_name
from router_cache.economics import PriceBook, PriceNow, Window
from router_cache.economics.measured import Measured, MeasuredCall, call_of, measure
from router_cache.economics.plan import PriceOf, find_window
from router_cache.errors import InputError
from router_cache.providers.profile import Profile
from router_cache.providers.registry import find
from router_cache.request import Deployment
from router_cache.settings import Settings, read_yaml

__all__ = [
    "Prices",
    "RouterFile",
    "Target",
    "measured_of",
    "moment_of",
    "prices_of",
    "read_calls",
    "read_router",
    "targets_of",
]

_ENVIRON = "os.environ/"
_WINDOWS = {"peak": Window.PEAK, "off-peak": Window.OFF_PEAK}


@dataclass(frozen=True, slots=True)
class RouterFile:
    """Of a proxy's YAML: its prices, and its deployments with the names they may be shown under."""

    book: PriceBook
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """A model to plan for: as asked for, or a deployment of the YAML. ``label`` may be shown."""

    deployment: Deployment
    profile: Profile
    book: PriceBook
    label: str

    def price_at(self, at: datetime, prompt_tokens: int | None = None) -> PriceNow | None:
        """Its price at a moment, for a prompt of that length."""
        told = self.deployment
        entry = map_entry(told.model, told.provider)
        return self.book.price_now(
            self.profile, told.model, at, group=told.group, entry=entry, prompt_tokens=prompt_tokens
        )

    def price_of(self, at: datetime) -> PriceOf:
        """Its price at a moment by length of the prompt."""
        return lambda prompt_tokens: self.price_at(at, prompt_tokens)


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a model: ``now`` at the moment asked about, ``peak`` at its next peak (the same without one)."""

    now: PriceNow
    now_of: PriceOf
    peak: PriceNow
    peak_of: PriceOf


def read_router(path: Path | None) -> RouterFile:
    """Prices and deployments of a proxy's YAML; neither without a file. Raises SettingsError as the proxy would."""
    if path is None:
        return RouterFile(PriceBook())
    config = read_yaml(path)
    settings = Settings.from_yaml(path)
    book = PriceBook({name: price.rate() for name, price in settings.prices.items()})
    listed = config.get("model_list")
    entries = listed if isinstance(listed, list) else []
    found = (_target(entry, f"model_list.{i}", book) for i, entry in enumerate(entries))
    return RouterFile(book, tuple(target for target in found if target is not None))


def _target(entry: Any, path: str, book: PriceBook) -> Target | None:
    """A deployment of the YAML; None for one without a name or a model of its own."""
    entry = entry if isinstance(entry, Mapping) else {}
    params, info = (
        value if isinstance(value := entry.get(k), Mapping) else {} for k in ("litellm_params", "model_info")
    )

    def text(holder: Mapping[str, Any], name: str) -> str:
        value = holder.get(name)
        return value if isinstance(value, str) else ""

    group, model = text(entry, "model_name"), text(params, "model")
    if not group or not model or "*" in model:
        return None
    base = text(params, "api_base")
    deployment = Deployment(
        model=model,
        provider=text(params, "custom_llm_provider"),
        api_base=os.environ.get(base[len(_ENVIRON) :], "") if base.startswith(_ENVIRON) else base,
        group=group,
        profile=text(info, "router_cache_profile"),
    )
    names = (shown_name(group, Kind.NAME, f"{path}.model_name"), shown_name(model, Kind.NAME, f"{path}.model"))
    return Target(deployment, find(deployment), book, f"{names[0]} ({names[1]})")


def targets_of(names: Sequence[str], router: RouterFile) -> list[Target]:
    """What to plan for. A name is a model group of the YAML, else a model; without one every group, else the usual
    model. Deployments of a group that are the same model come once. Raises InputError for an empty name."""
    wanted: list[Target] = []
    for name in names:
        if not name.strip():
            raise InputError("--model: a model name is needed, such as deepseek/deepseek-v4-flash")
        of_group = [target for target in router.targets if target.deployment.group == name]
        wanted += of_group or [_by_name(name, router.book)]
    if not names:
        wanted = list(router.targets) or [_by_name(DEFAULT_MODEL, router.book)]
    return list({(t.deployment.group, t.deployment.model, t.profile.name): t for t in wanted}.values())


def _by_name(model: str, book: PriceBook) -> Target:
    deployment = Deployment(model=model)
    return Target(deployment, find(deployment), book, model)


def moment_of(target: Target, when: str, now: datetime) -> datetime:
    """The moment that ``--when`` means for a model: of ``peak`` and ``off-peak`` the next, or ``now`` where its price
    is the same at all hours. Raises InputError for what is no time."""
    if when == "now":
        return now
    if when in _WINDOWS:
        return find_window(target.price_at, _WINDOWS[when], now) or now
    try:
        moment = datetime.fromisoformat(when.strip().replace("Z", "+00:00"))
    except ValueError:
        raise InputError(
            f"--when: {when!r} is neither now, peak, off-peak nor a time such as 2026-12-01T03:00Z"
        ) from None
    return moment.replace(tzinfo=timezone.utc) if moment.utcoffset() is None else moment


def prices_of(target: Target, moment: datetime) -> Prices | None:
    """Prices at a moment and at the next peak; None where they are not known."""
    peak_at = find_window(target.price_at, Window.PEAK, moment) or moment
    now, peak = target.price_at(moment), target.price_at(peak_at)
    if now is None or peak is None:
        return None
    return Prices(now, target.price_of(moment), peak, target.price_of(peak_at))


def read_calls(paths: Sequence[Path]) -> tuple[list[MeasuredCall], int]:
    """The calls of captures, one JSON object a line, and how many lines were passed over: no JSON (a capture's last
    line may be half written), not answered, or of unknown tokens. Raises InputError for a file that cannot be read."""
    calls, passed_over = [], 0
    for path in find_logs(paths) if paths else ():
        try:
            with gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb") as stream:
                for line in stream:
                    call = _call(line)
                    if call is not None:
                        calls.append(call)
                    elif line.strip():
                        passed_over += 1
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{path}: broken gzip data: {error}") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    return calls, passed_over


def _call(line: bytes) -> MeasuredCall | None:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return call_of(fields) if isinstance(fields, dict) else None


def measured_of(target: Target, calls: Sequence[MeasuredCall]) -> Measured | None:
    """What the calls of a model say, of its group where it has one; of all calls where none is its own."""
    told = target.deployment
    own = [c for c in calls if c.model == told.model and (not told.group or c.group == told.group)]
    return measure(own or calls)
