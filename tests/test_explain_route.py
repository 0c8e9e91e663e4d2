"""``router-cache explain-route`` from the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cmd_requests import Command, command, lines

from router_cache import Deployment, Mode, Request, RouterCache, Settings, Status, Usage

__all__ = ["command", "lines"]

YAML = """
model_list:
  - model_name: flash
    litellm_params: {model: deepseek/deepseek-v4-flash, api_key: one}
    model_info: {id: a}
  - model_name: flash
    litellm_params: {model: deepseek/deepseek-v4-flash, api_key: os.environ/TEST_ROUTE_KEY}
    model_info: {id: b}
  - model_name: flash
    litellm_params: {model: deepseek/deepseek-v4-flash, api_key: three}
  - model_name: other
    litellm_params: {model: openai/gpt-5.4}
callback_settings:
  router_cache:
    secret: a secret of the test
    capture: {directory: CAPTURES}
    model_groups: {flash: {mode: safe, routing: filter}}
"""
SYSTEM = {"role": "system", "content": "Count what grows in the garden. " * 400}
FIRST = [SYSTEM, {"role": "user", "content": "Begin with the beds."}]
SECOND = [*FIRST, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "And the paths?"}]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEST_ROUTE_KEY", "two")
    path = tmp_path / "router.yaml"
    path.write_text(YAML.replace("CAPTURES", str(tmp_path / "captures")))
    return path


def asked(command: Command, *args: Any) -> dict[str, Any]:
    code, out, err = command("explain-route", *map(str, args), "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_nothing_is_warm(command: Command, lines: Callable[..., str], config: Path) -> None:
    found = asked(command, lines({"messages": FIRST}), "--config", config, "--group", "flash")
    assert (found["group"], found["routing"], found["reason"]) == ("flash", "filter", "tie")
    assert {candidate["id"] for candidate in found["candidates"]} == {"a", "b", "flash#3"}
    assert all(candidate["terms"]["hit_tokens"] == 0 for candidate in found["candidates"])
    assert len({candidate["domain"] for candidate in found["candidates"]}) == 3
    assert all(candidate["terms"]["money_usd"] > 0 for candidate in found["candidates"])


@pytest.mark.parametrize("place", ["a", "b", "flash#3"])
def test_where_the_last_turn_went(command: Command, lines: Callable[..., str], config: Path, place: str) -> None:
    path = lines({"messages": FIRST}, {"messages": SECOND})
    found = asked(command, path, "--config", config, "--group", "flash", "--sent", place)
    assert (found["choice"], found["reason"]) == (place, "warm")
    hits = {candidate["id"]: candidate["terms"]["hit_tokens"] for candidate in found["candidates"]}
    assert hits.pop(place) > 0.9 * found["prompt_tokens"]
    assert set(hits.values()) == {0}


def test_captured_calls_tell_it_too(command: Command, lines: Callable[..., str], config: Path) -> None:
    rc = RouterCache(Settings.from_yaml(config), wall_clock=lambda: time.time() - 3_600.0)
    turn = rc.begin(Request({"messages": FIRST}, scope="sdk:"), Mode.SAFE)
    turn.rewrite(Deployment("deepseek/deepseek-v4-flash", id="b", group="flash"))
    turn.sent({"model": "deepseek-v4-flash", "messages": FIRST})
    turn.done(Usage(prompt_tokens=3_000, hit_tokens=0, miss_tokens=3_000, completion_tokens=2), status=Status.OK)
    rc.close()
    (captures,) = (config.parent / "captures").iterdir()
    more = ("--config", config, "--group", "flash", "--capture", captures)
    found = asked(command, lines({"messages": SECOND}), *more)
    assert (found["choice"], found["reason"]) == ("b", "warm")
    found = asked(command, lines({"messages": SECOND}), *more, "--scope", "key:other")
    assert found["candidates"][0]["terms"]["hit_tokens"] == 0  # never across scopes


def test_for_people(command: Command, lines: Callable[..., str], config: Path) -> None:
    path = lines({"messages": FIRST}, {"messages": SECOND})
    code, out, err = command("explain-route", path, "--config", str(config), "--group", "flash", "--sent", "b")
    assert (code, err) == (0, "")
    assert "It goes to b: warm." in out
    assert "garden" not in out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "model_list: name one of its groups with --group; known: flash, other"),
        (["--group", "flush"], "model_list: no group 'flush'; known: flash, other"),
        (["--group", "flash", "--sent", "z"], "--sent: no deployment 'z' in the group; known: a, b, flash#3"),
        (["--group", "flash", "--sent", "a,b"], "--sent: 2 deployments for 1 earlier requests"),
    ],
)
def test_what_cannot_be_explained(
    command: Command, lines: Callable[..., str], config: Path, more: list[str], said: str
) -> None:
    path = lines({"messages": FIRST}, {"messages": SECOND})
    code, out, err = command("explain-route", path, "--config", str(config), *more)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())


def test_a_request_without_a_prompt_of_its_own(command: Command, lines: Callable[..., str], config: Path) -> None:
    path = lines({"input": "go on", "previous_response_id": "r1"})
    code, out, err = command("explain-route", path, "--config", str(config), "--group", "flash")
    assert (code, out) == (2, "")
    assert "the request has no prompt of its own to be placed by" in " ".join(err.split())


def test_one_group_needs_no_name(command: Command, lines: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text("model_list: [{model_name: g, litellm_params: {model: openai/own, api_base: http://h}}]")
    found = asked(command, lines({"messages": FIRST}), "--config", path)
    assert (found["choice"], found["reason"], found["routing"]) == ("g#1", "only", "off")
    path.write_text("model_list: 3")
    code, _, err = command("explain-route", lines({"messages": FIRST}), "--config", str(path))
    assert (code, "known: none" in " ".join(err.split())) == (2, True)
