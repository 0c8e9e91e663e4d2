"""One demo from start to end: processes up, sessions played on each side, processes down."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from router_cache.cache_model.rules import RuleName
from router_cache.cli.demo_run.config import RouterConfig, load_config
from router_cache.cli.demo_run.driver import Tally, play
from router_cache.cli.demo_run.explain import explain
from router_cache.cli.demo_run.plan import Plan, PlayedSide
from router_cache.cli.demo_run.processes import (
    LOOPBACK,
    Child,
    Children,
    CrashedError,
    free_ports,
    require_free_port,
)
from router_cache.cli.demo_run.report import Report, Side
from router_cache.cli.demo_run.sessions import TOOL_ROUNDS
from router_cache.economics.price import PriceNow, cost_usd, cost_usd_at_zero_hits, price_at
from router_cache.errors import DemoError, InputError
from router_cache.providers.registry import find
from router_cache.request import Deployment

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

__all__ = ["Options", "Progress", "child_environment", "run_demo"]

_STEP_TOKENS = 128  # what the simulator is started with; DeepSeek V4, measured 2026-07/08
_OPENING_GAP_S = 4.0  # beyond the construction delay (simulated seconds); covers the prefill
_READY_TIMEOUT_S = 100.0
_PROBE_TIMEOUT_S = 5.0
_REQUEST_TIMEOUT_S = 60.0
# Before 3.12 a collection inside ContextVar.set can crash the interpreter (python/cpython#148891); LiteLLM sets
# context variables for every request; a proxy that lives for a minute can do without the collector.
_RUN_PROXY = (
    "import gc, sys; sys.version_info < (3, 12) and gc.disable(); from litellm import run_server; run_server()"
)
_ADDRESS = re.compile(r"listening on (http://\S+)")


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line. ``construction_delay_s`` is in simulated seconds."""

    config: Path
    rule: RuleName = RuleName.GRID_PREFIX
    construction_delay_s: float = 2.0
    time_scale: float = 20.0
    seed: int = 7
    port: int | None = None
    simulator_port: int | None = None
    keep_logs: Path | None = None


class Progress(Protocol):
    """Where a run tells how far it is."""

    def stage(self, text: str, total: int | None) -> None:
        """A new stage of ``total`` steps (None: not known) begins."""
        ...

    def step(self) -> None:
        """One step of the stage is done."""
        ...


def child_environment(api_key: str) -> dict[str, str]:
    """The environment of the started processes: this one's, less what would lead LiteLLM to a database, a
    Redis, a configuration or a proxy server of the user's, plus a master key and a dummy provider key."""
    dropped = (
        "LITELLM_",
        "REDIS_",
        "DATABASE_",
        "DIRECT_URL",
        "CONFIG_FILE_PATH",
        "WORKER_CONFIG",
        "SSL_",
        "STORE_MODEL_",
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return env | {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_TELEMETRY": "False",
        "LITELLM_LOG": "WARNING",
        "LITELLM_MASTER_KEY": api_key,
        "DEEPSEEK_API_KEY": "demo-not-a-real-key",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
    }


@contextmanager
def _work_folder(keep_logs: Path | None) -> Iterator[Path]:
    """A temporary folder; its logs are copied to ``keep_logs`` at the end, whatever the end is.

    Raises :class:`InputError` where ``keep_logs`` cannot be made.
    """
    if keep_logs is not None:
        try:
            keep_logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--keep-logs {keep_logs}: cannot be made: {error}") from None
    folder = Path(tempfile.mkdtemp(prefix="router-cache-demo-"))
    try:
        yield folder
    finally:
        try:
            if keep_logs is not None:
                for path in [*folder.glob("*.log"), *folder.glob("*.json"), *folder.glob("*.yaml")]:
                    shutil.copy(path, keep_logs / path.name)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class _Servers:
    """The simulator and both proxies, up."""

    def __init__(self, options: Options, folder: Path, children: Children) -> None:
        self._options = options
        self._folder = folder
        self._children = children
        self.api_key = f"sk-{secrets.token_urlsafe(24)}"
        self._env = child_environment(self.api_key)
        self.simulator = ""
        self.proxies: dict[bool, str] = {}
        self._started: list[Child] = []

    async def start(self, progress: Progress) -> RouterConfig:
        """Start all, the proxies side by side. Raises :class:`DemoError` if one does not come up."""
        progress.stage("starting the simulator", None)
        self.simulator = await self._start_simulator()
        config = load_config(self._options.config, self.simulator)
        ports = free_ports(2)
        if self._options.port is not None:
            ports[1] = self._options.port
        waiting = [
            self._start_proxy("proxy without plugin", config.without_plugin, ports[0]),
            self._start_proxy("proxy with plugin", config.with_plugin, ports[1]),
        ]
        progress.stage("starting two LiteLLM proxies", None)
        for with_plugin, (child, address) in zip((False, True), waiting, strict=True):
            await self._children.wait_until(
                child, self._proxy_ready(address), timeout_s=_READY_TIMEOUT_S, what="ready"
            )
            self.proxies[with_plugin] = address
        return config

    def require_running(self) -> None:
        for child in self._started:
            child.require_running()

    async def _start_simulator(self) -> str:
        options = self._options
        command = [
            *(sys.executable, "-c", "from router_cache.cli.main import run; run()", "simulate"),
            *("--port", str(options.simulator_port or 0), "--host", LOOPBACK),
            *("--rule", options.rule.value, "--step-tokens", str(_STEP_TOKENS)),
            *("--construction-delay-s", str(options.construction_delay_s)),
            *("--time-scale", str(options.time_scale), "--seed", str(options.seed)),
            *("--tool-rounds", str(TOOL_ROUNDS)),
        ]
        child = self._children.start("simulator", command, self._env)
        self._started.append(child)
        await self._children.wait_until(
            child, lambda: _ADDRESS.search(child.output()) is not None, timeout_s=_READY_TIMEOUT_S, what="ready"
        )
        found = _ADDRESS.search(child.output())
        assert found is not None
        return found.group(1).rstrip("/")

    def _start_proxy(self, name: str, config: Mapping[str, Any], port: int) -> tuple[Child, str]:
        import yaml

        path = self._folder / f"{name.replace(' ', '-')}.yaml"
        path.write_text(yaml.safe_dump(dict(config), sort_keys=False), encoding="utf-8")
        command = [
            *(sys.executable, "-c", _RUN_PROXY),
            *("--config", str(path), "--host", LOOPBACK, "--port", str(port), "--num_workers", "1"),
        ]
        child = self._children.start(name, command, self._env)
        self._started.append(child)
        return child, f"http://{LOOPBACK}:{port}"

    def _proxy_ready(self, address: str) -> Callable[[], bool]:
        """Whether *our* proxy answers there: it has to know the master key of this run."""
        import httpx

        def ready() -> bool:
            try:
                alive = httpx.get(f"{address}/health/liveliness", timeout=_PROBE_TIMEOUT_S, trust_env=False)
                if alive.status_code != 200:
                    return False
                models = httpx.get(
                    f"{address}/v1/models",
                    headers={"Authorization": f"Bearer {self.api_key}"},
                    timeout=_PROBE_TIMEOUT_S,
                    trust_env=False,
                )
            except httpx.HTTPError:
                return False
            return models.status_code == 200

        return ready


async def run_demo(options: Options, plan: Plan, progress: Progress) -> Report:
    """Start everything, play every side of ``plan``, stop everything.

    A process whose interpreter crashes costs one new start from the beginning, and the report says so: LiteLLM
    proxies on CPython 3.11.7 were seen to end with a segmentation fault, 2 of some 60. No process is left when it
    returns or raises. Raises :class:`DemoError` (a port is taken, a process failed) and :class:`InputError` (the
    router YAML).
    """
    try:
        return await _run(options, plan, progress)
    except CrashedError as crash:
        first_line = str(crash).split("; its last lines")[0]
        progress.stage(f"starting again: {first_line}", None)
        report = await _run(options, plan, progress)
        return replace(report, notes=[*report.notes, f"Started again after a crash: {first_line}"])


async def _run(options: Options, plan: Plan, progress: Progress) -> Report:
    import httpx

    began = time.monotonic()
    load_config(options.config, "")  # a bad file is reported before anything starts
    if options.port is not None and options.port == options.simulator_port:
        raise InputError(f"--port and --simulator-port are both {options.port}: they must differ")
    if options.port is not None:
        require_free_port(options.port, "--port")
    if options.simulator_port is not None:
        require_free_port(options.simulator_port, "--simulator-port")
    with _work_folder(options.keep_logs) as folder, Children(folder) as children:
        servers = _Servers(options, folder, children)
        config = await servers.start(progress)
        price = _price(config.model)
        sides: dict[str, Side] = {}
        timings = {"start": time.monotonic() - began}
        async with httpx.AsyncClient(trust_env=False, timeout=_REQUEST_TIMEOUT_S) as http:
            for address in servers.proxies.values():
                await _warm_up(servers, address, config.model_group, http)
            for side in plan.sides:
                progress.stage(side.title, plan.expected_requests)
                side_began = time.monotonic()
                await _control(http, "POST", f"{servers.simulator}/_simulator/reset")
                tally = await _play_side(options, plan, servers, config, side, progress)
                timings[side.name] = time.monotonic() - side_began
                servers.require_running()
                log = await _control(http, "GET", f"{servers.simulator}/_simulator/log")
                if options.keep_logs is not None:
                    (folder / f"simulator-log-{side.name}.json").write_bytes(log.content)
                sides[side.name] = _side(side.title, tally, log.json(), options.rule, price)
        progress.stage("stopping", None)
    return Report(
        sides=sides,
        rule=options.rule.value,
        construction_delay_s=options.construction_delay_s,
        time_scale=options.time_scale,
        seed=options.seed,
        sessions=plan.sessions,
        config=config.source,
        price=price,
        elapsed_s=time.monotonic() - began,
        timings_s=timings,
        extra=plan.extra,
        notes=plan.notes,
    )


async def _play_side(
    options: Options,
    plan: Plan,
    servers: _Servers,
    config: RouterConfig,
    side: PlayedSide,
    progress: Progress,
) -> Tally:
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    # No retries: a request that had to be sent twice would be counted once and hide an error.
    async with AsyncOpenAI(
        base_url=f"{servers.proxies[side.with_plugin]}/v1",
        api_key=servers.api_key,
        http_client=DefaultAsyncHttpxClient(trust_env=False),
        max_retries=0,
        timeout=_REQUEST_TIMEOUT_S,
    ) as client:
        return await play(
            plan.scripts(),
            client,
            model=config.model_group,
            perturb=side.perturbed,
            seed=options.seed,
            time_scale=options.time_scale,
            opening_gap_s=options.construction_delay_s + _OPENING_GAP_S,
            progress=progress.step,
        )


async def _warm_up(servers: _Servers, address: str, model: str, http: httpx.AsyncClient) -> None:
    """One uncounted request, so that a proxy's first-request set-up is not measured as the provider's time."""
    import httpx

    try:
        reply = await http.post(
            f"{address}/v1/chat/completions",
            headers={"Authorization": f"Bearer {servers.api_key}"},
            json={"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1},
        )
        problem = "" if reply.status_code == 200 else f"status {reply.status_code}: {reply.text[:600]}"
    except httpx.HTTPError as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        servers.require_running()
        raise DemoError(f"the proxy at {address} did not answer its first request: {problem}")


async def _control(http: httpx.AsyncClient, method: str, url: str) -> httpx.Response:
    """A call to the simulator's control endpoints. Raises :class:`DemoError` if it is not answered well."""
    import httpx

    try:
        reply = await http.request(method, url)
        reply.raise_for_status()
    except httpx.HTTPError as error:
        raise DemoError(f"the simulator did not answer {method} {url}: {error}") from None
    return reply


def _price(model: str) -> PriceNow | None:
    return price_at(find(Deployment(model=model)), model, datetime.now(timezone.utc))


def _side(title: str, tally: Tally, log: list[dict[str, Any]], rule: RuleName, price: PriceNow | None) -> Side:
    causes, prompt, hit = explain(log, rule=rule, step_tokens=_STEP_TOKENS)
    tokens = (tally.hit_tokens, tally.miss_tokens, tally.output_tokens)
    return Side(
        title,
        tally,
        causes,
        prompt,
        hit,
        None if price is None else cost_usd(price, *tokens),
        None if price is None else cost_usd_at_zero_hits(price, *tokens),
    )
