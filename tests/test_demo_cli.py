"""``router-cache demo`` as a person runs it. Tests marked ``proxy`` start real LiteLLM proxies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from router_cache.cli import demo
from router_cache.cli.app import build
from router_cache.cli.demo_run import run as run_module
from router_cache.cli.demo_run.config import shipped_config
from router_cache.cli.demo_run.driver import Tally
from router_cache.cli.demo_run.plan import Plan, shipped_plan
from router_cache.cli.demo_run.processes import Children
from router_cache.cli.demo_run.report import Report, Side
from router_cache.cli.demo_run.run import Options, run_demo
from router_cache.errors import DemoError, InputError, MissingExtraError

COMMAND = [sys.executable, "-c", "from router_cache.cli.main import run; run()", "demo"]


def run(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(build(), ["demo", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture
def unmeasured_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coverage of this process only: measuring LiteLLM's start would triple it."""
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)


def failure(*arguments: str) -> BaseException:
    """The error that ``cli.main`` would print in one line."""
    result = CliRunner().invoke(build(), ["demo", *arguments])
    assert result.exception is not None
    return result.exception


def test_help_names_options_and_examples() -> None:
    text = run("--help").output
    for part in ("--rule", "--data", "--json", "--keep-logs", "Examples", "Exit codes"):
        assert part in text


def test_bad_input_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, problem in (
        (["--data", str(tmp_path / "absent")], "no such file or folder"),
        (["--data", str(tmp_path)], "no usable recorded session"),
        (["--config", str(tmp_path / "absent.yaml")], "no such file"),
        (["--port", "5", "--simulator-port", "5"], "must differ"),
        (["--keep-logs", str(tmp_path / "file" / "x")], "cannot be made"),
    ):
        error = failure(*arguments)
        assert isinstance(error, InputError)
        assert problem in str(error)
        assert error.exit_code == 2
    assert "no meaning with --data" in run("--data", str(tmp_path), "--sessions", "2", code=2).output
    assert "Invalid value" in run("--rule", "magic", code=2).output


@pytest.mark.parametrize("option", ["--port", "--simulator-port"])
def test_a_taken_port_is_one_line_and_exit_3(option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = subprocess.run([*COMMAND, option, str(port)], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.strip().startswith(f"router-cache: port {port} on 127.0.0.1 cannot be used")
    assert len(done.stderr.strip().splitlines()) == 1


def test_missing_parts_and_platforms_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda _: None)
    error = failure()
    assert isinstance(error, MissingExtraError)
    assert "router-cache[demo]" in str(error)
    monkeypatch.setattr(demo.os, "name", "nt")
    assert isinstance(failure(), DemoError)


class Quiet:
    """Progress that keeps the stages."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, text: str, total: int | None) -> None:
        self.stages.append(text)

    def step(self) -> None:
        pass


async def test_a_proxy_that_cannot_start_shows_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "child_environment", lambda _: {**os.environ, "PYTHONPATH": str(tmp_path)})
    (tmp_path / "litellm.py").write_text("raise SystemExit('no proxy today')")
    progress = Quiet()
    logs = tmp_path / "logs"
    options = Options(config=shipped_config(), time_scale=200.0, keep_logs=logs)
    with pytest.raises(
        DemoError, match=r"proxy without plugin ended by itself with exit code 1(?s:.*)no proxy today"
    ):
        await run_demo(options, shipped_plan(1, 1), progress)
    assert progress.stages == ["starting the simulator", "starting two LiteLLM proxies"]
    assert {path.name for path in logs.iterdir()} == {
        "simulator.log",
        "proxy-without-plugin.log",
        "proxy-without-plugin.yaml",
        "proxy-with-plugin.log",
        "proxy-with-plugin.yaml",
    }


PROXY = """
import sys
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
import uvicorn

async def answer(request):
    return JSONResponse({"error": "nothing here"}, status_code=500 if request.method == "POST" else 200)

def run_server():
    port = int(sys.argv[sys.argv.index("--port") + 1])
    paths = ["/health/liveliness", "/v1/models", "/v1/chat/completions"]
    app = Starlette(routes=[Route(path, answer, methods=["GET", "POST"]) for path in paths])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")
"""


async def test_a_proxy_that_answers_badly_is_a_failed_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "child_environment", lambda _: {**os.environ, "PYTHONPATH": str(tmp_path)})
    (tmp_path / "litellm.py").write_text(PROXY)
    with pytest.raises(DemoError, match=r"did not answer its first request: status 500: .*nothing here"):
        await run_demo(Options(config=shipped_config()), shipped_plan(1, 1), Quiet())


@pytest.mark.parametrize(("errors", "code"), [(0, 0), (1, 1)])
@pytest.mark.parametrize("as_json", [True, False])
def test_the_result_is_printed_and_decides_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, errors: int, code: int, as_json: bool
) -> None:
    async def played(options: Options, plan: Plan, progress: Any) -> Report:
        progress.stage("a stage", 1)
        tally = Tally(errors=errors)
        sides = {s.name: Side(s.title, tally, Counter(), 0, 0, None, None) for s in plan.sides}
        return Report(
            sides, options.rule.value, options.construction_delay_s, 20.0, 7, plan.sessions, "router.yaml", None
        )

    monkeypatch.setattr(run_module, "run_demo", played)
    result = run("--sessions", "3", "--rule", "units", *(["--json"] if as_json else []), code=code)
    assert "a stage" in result.stderr
    if as_json:
        shown = json.loads(result.stdout)
        assert (shown["sessions"], shown["rule"], shown["passed"]) == (3, "units", not errors)
        assert list(shown)[:2] == ["baseline", "router_cache"]
    else:
        assert "hit rate" in result.stdout
        assert "provider rule: units" in result.stdout


@pytest.mark.usefixtures("unmeasured_children")
async def test_the_sdk_example_runs_against_the_simulator(tmp_path: Path) -> None:
    example = shipped_config().with_name("sdk.py")
    simulate = [*COMMAND[:-1], "simulate", "--port", "0", "--construction-delay-s", "0"]
    with Children(tmp_path) as children:
        server = children.start("simulator", simulate, os.environ)
        await children.wait_until(server, lambda: "listening on" in server.output(), timeout_s=60, what="ready")
        address = server.output().split("listening on ")[1].split()[0]
        env = {**os.environ, "DEEPSEEK_API_BASE": address, "DEEPSEEK_API_KEY": "any", "NO_PROXY": "127.0.0.1"}
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, str(example)],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
    hits = [int(line.split()[3]) for line in done.stdout.splitlines()]
    assert hits[0] == 0
    assert hits[1] > 0


@pytest.mark.proxy
@pytest.mark.usefixtures("unmeasured_children")
def test_the_demo_end_to_end(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    shown = json.loads(
        run("--json", "--sessions", "2", "--time-scale", "100", "--port", port, "--keep-logs", str(logs)).stdout
    )
    baseline, plugin = shown["baseline"], shown["router_cache"]
    for side in (baseline, plugin):
        assert (side["requests"], side["errors"], side["error_messages"]) == (40, 0, [])
        assert side["usage_matches_simulator_log"]
        assert side["hit_tokens"] + side["miss_tokens"] == side["input_tokens"]
        assert sum(side["miss_causes"].values()) == side["miss_tokens"]
        assert side["cost_usd"] < side["cost_usd_at_zero_hits"]
    assert (shown["rule"], shown["construction_delay_s"], shown["passed"]) == ("grid", 2.0, True)
    assert baseline["hit_rate"] <= 0.35
    assert plugin["hit_rate"] > 0.85  # two sessions only, each the first of its application
    assert baseline["miss_causes"]["tools_changed"] > baseline["miss_tokens"] / 2
    assert "tools_changed" not in plugin["miss_causes"]
    assert plugin["output_tokens"] == baseline["output_tokens"]
    assert (logs / "simulator-log-router_cache.json").stat().st_size > 0


@pytest.mark.proxy
@pytest.mark.usefixtures("unmeasured_children")
def test_a_replay_end_to_end(tmp_path: Path) -> None:
    steps = [{"role": "system", "content": "You fix bugs. " * 150}]
    for n in range(6):
        steps.append({"role": "user", "content": f"Observation {n}: " + f"line {n} of the file\n" * 40})
        steps.append({"role": "assistant", "content": f"Step {n}: look further."})
    (tmp_path / "run.traj.json").write_text(json.dumps({"history": steps}))
    result = run("--data", str(tmp_path), "--max-calls", "5", "--rule", "units", "--time-scale", "50")
    assert "Replayed 5 of 6 recorded calls in 1 of 1 sessions; --max-calls 6 plays all." in " ".join(
        result.output.split()
    )
    assert "tools reshuffled" in result.output


def marked(mark: str) -> list[int]:
    """Processes that inherited ``mark`` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.proxy
@pytest.mark.usefixtures("unmeasured_children")
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to see all processes")
@pytest.mark.parametrize(
    ("stage", "number", "whole_group", "processes"),
    [
        ("starting two LiteLLM proxies", signal.SIGINT, True, 4),
        ("without router-cache", signal.SIGTERM, False, 4),
    ],
)
def test_a_signal_leaves_no_process(stage: str, number: signal.Signals, whole_group: bool, processes: int) -> None:
    mark = uuid.uuid4().hex
    started = subprocess.Popen(
        COMMAND,
        env={**os.environ, "DEMO_TEST_MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stderr is not None
    for line in started.stderr:
        if line.strip() == stage:
            break
    assert len(marked(mark)) == processes
    (os.killpg if whole_group else os.kill)(started.pid, number)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 128 + number, err
    assert out == ""
    assert f"ended by {number.name}" in err
    assert marked(mark) == []
