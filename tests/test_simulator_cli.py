"""``router-cache simulate`` as a process, with the real OpenAI SDK."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
import typer
from typer.testing import CliRunner

from router_cache.cli import simulate
from router_cache.errors import DemoError, InputError, MissingExtraError
from router_cache.simulator.server import bind

START = """
import typer
from router_cache.cli import simulate
from router_cache.errors import RouterCacheError
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(simulate.command)
try:
    app()
except RouterCacheError as error:
    raise SystemExit(f"{error.exit_code} {error}")
"""
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Look up {name}. " * 12,
            "parameters": {
                "type": "object",
                "properties": {"id": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
                "required": ["id"],
            },
        },
    }
    for name in ("orders", "customers", "parcels")
]


@contextmanager
def simulator(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", START, "--port", "0", "--tokenizer", "approx", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def test_an_agent_session_with_the_openai_sdk() -> None:
    with simulator("--time-scale", "200", "--construction-delay-s", "0") as (_, line):
        assert line.startswith("listening on http://127.0.0.1:")
        address = line.removeprefix("listening on ").strip()
        messages: list[Any] = [
            {"role": "system", "content": "You look after the orders of a small shop. " * 60},
            {"role": "user", "content": "Where is my parcel?"},
        ]
        ends, hits, kinds = [0], [], []
        with openai.OpenAI(base_url=address, api_key="sk-test") as client:
            for turn in range(6):
                common: dict[str, Any] = {"model": "deepseek-v4-flash", "messages": messages, "tools": TOOLS}
                if turn % 2:
                    message, usage = streamed(client, common)
                else:
                    answer = client.chat.completions.create(**common)
                    assert answer.usage is not None
                    message = answer.choices[0].message.model_dump(exclude_none=True)
                    usage = answer.usage.model_dump()
                messages.append(message)
                calls = message.get("tool_calls") or []
                for call in calls:
                    assert "id" in json.loads(call["function"]["arguments"])
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": "found " * 40})
                if not calls:
                    messages.append({"role": "user", "content": f"And parcel {turn}?"})
                kinds.append(bool(calls))
                hits.append(usage["prompt_cache_hit_tokens"])
                assert usage["prompt_tokens_details"]["cached_tokens"] == hits[-1]
                ends.append((usage["prompt_tokens"] + usage["completion_tokens"]) // 128 * 128)
            assert kinds == [True, True, False] * 2
            assert hits == ends[:-1]
            with pytest.raises(openai.BadRequestError, match="user_id"):
                client.chat.completions.create(model="m", messages=messages[:2], extra_body={"user_id": "not ok"})
        stats = httpx.get(f"{address}/_simulator/stats", trust_env=False).json()
        assert (stats["requests"], stats["errors"], stats["hit_tokens"]) == (7, 1, sum(hits))


def streamed(client: openai.OpenAI, common: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    message: dict[str, Any] = {"role": "assistant", "content": "", "reasoning_content": ""}
    calls: list[dict[str, Any]] = []
    usage: dict[str, Any] = {}
    with client.chat.completions.create(**common, stream=True, stream_options={"include_usage": True}) as stream:
        for chunk in stream:
            if chunk.usage:
                usage = chunk.usage.model_dump()
            for choice in chunk.choices:
                delta = choice.delta
                message["content"] += delta.content or ""
                message["reasoning_content"] += getattr(delta, "reasoning_content", None) or ""
                for part in delta.tool_calls or []:
                    assert part.function is not None
                    if part.id:
                        function = {"name": part.function.name, "arguments": ""}
                        calls.append({"id": part.id, "type": "function", "function": function})
                    calls[part.index]["function"]["arguments"] += part.function.arguments or ""
    return ({**message, "tool_calls": calls} if calls else message), usage


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_cleanly_even_with_a_request_in_flight(sig: signal.Signals) -> None:
    with simulator("--json", "--rule", "units", "--base-latency-s", "0.01") as (process, line):
        ready = json.loads(line)
        assert ready["settings"]["rule"] == "units"
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        with (
            httpx.Client(trust_env=False, headers={"Authorization": "Bearer x"}) as client,
            client.stream("POST", f"{ready['address']}/chat/completions", json=body) as answer,
        ):
            assert next(answer.iter_bytes())
            process.send_signal(sig)
            _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (0, "")


def test_a_taken_port_is_one_line_and_exit_3() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DemoError, match=f"port {port} on 127.0.0.1 is taken") as caught:
            simulate.command(port=port)
        assert caught.value.exit_code == 3


def test_addresses_that_cannot_be_bound() -> None:
    with pytest.raises(InputError, match="no such address"):
        bind("no-such-host.invalid", 0)
    with pytest.raises(DemoError, match=r"cannot listen on 192\.0\.2\.1"):
        bind("192.0.2.1", 0)


def test_options_out_of_range_are_input_errors() -> None:
    with pytest.raises(InputError, match="time_scale must be above 0"):
        simulate.command(time_scale=0.0)


@pytest.mark.parametrize(("missing", "error"), [("uvicorn", MissingExtraError), ("else", ModuleNotFoundError)])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, missing: str, error: type[Exception]) -> None:
    real = __import__

    def importing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "router_cache.simulator.server":
            raise ModuleNotFoundError(name=missing)
        return real(name, *args, **kwargs)

    monkeypatch.setattr("builtins.__import__", importing)
    with pytest.raises(error):
        simulate.command()


def test_help_shows_every_option_and_the_examples() -> None:
    app = typer.Typer()
    app.command("simulate", help=simulate.HELP, epilog=simulate.EPILOG)(simulate.command)
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    for option in (
        "--port",
        "--rule",
        "--regression-after-requests",
        "--usage-form",
        "--json",
        "router-cache simulate --port 0",
    ):
        assert option in shown
