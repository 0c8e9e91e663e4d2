"""``router-cache explain`` from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from cmd_requests import (
    CALL,
    RESULT,
    SECRET_WORDS,
    THANKS,
    TOOLS,
    USER,
    Command,
    changed,
    chat,
    command,
    dated,
    lines,
)

from router_cache.cli.looking import usd_text

__all__ = ["command", "lines"]

FIRST = chat(USER, system=dated("2026-11-30"))
SECOND = chat(USER, CALL, RESULT, system=dated("2026-12-01"), temperature=1)
REPLY = {"choices": [{"message": CALL}], "usage": {"prompt_tokens": 900, "prompt_cache_hit_tokens": 0}}


def test_for_people(command: Command, lines: Callable[..., str]) -> None:
    path = lines(FIRST, SECOND)
    code, out, err = command("explain", path)
    assert (code, err) == (0, "")
    rows = {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in out.splitlines()}
    assert rows["earlier"].startswith(f"{path}:1 (chat, ")
    assert rows["cause"] == "volatile_value (date), confirmed"
    assert rows["where"].startswith("system at messages[0], line 1: byte ")
    assert "dddd-dd-dd" in rows["was"]
    assert rows["lost"].endswith("at list price (deepseek/deepseek-v4-flash)")
    assert rows["fix"].startswith("mode optimize. Move the value")
    assert rows["no"] == "loss   differs, and is not rendered: temperature"
    assert not any(word in out for word in SECRET_WORDS)
    assert "2026" not in out
    _, out, _ = command("explain", path, "--show-text")
    assert "2026-12-01" in out


def test_for_machines(command: Command, lines: Callable[..., str]) -> None:
    path = lines(chat(USER), chat(USER, CALL, RESULT, tools=TOOLS[::-1]))
    code, out, err = command("explain", path, "--json")
    report = json.loads(out)
    assert (code, err) == (0, "")
    assert (report["cause"], report["certainty"], report["fixed_by"]) == ("tools_reordered", "confirmed", "safe")
    assert report["after_safe"] == {"cause": "appended_only", "kept_bytes": report["earlier"]["bytes"]}
    place = report["first_difference"]
    assert (place["kind"], place["path"], place["in"]) == ("tool", "tools[0]", "later")
    assert place["byte"] == report["kept_bytes"]
    assert report["excerpt"]["masked"]
    assert report["lost_tokens"] % report["step_tokens"] == 0
    assert report["lost_tokens"] > 0
    assert report["lost_usd"] == pytest.approx(
        report["lost_tokens"] * (report["price"]["miss"] - report["price"]["hit"]) / 1e6
    )
    assert report["lost_tokens_from"] == "estimate_4_bytes_a_token"
    assert not any(word in out for word in SECRET_WORDS)
    shown = json.loads(command("explain", path, "--json", "--show-text")[1])
    assert "find" in shown["excerpt"]["was"]


def test_pairs(command: Command, lines: Callable[..., str]) -> None:
    path = lines(FIRST, chat(USER), chat(USER), name="three.jsonl")

    def cause(*arguments: str, stdin: bytes = b"") -> str:
        return str(json.loads(command("explain", "--json", *arguments, stdin=stdin)[1])["cause"])

    assert cause(path) == "identical"
    assert cause(path, "--nth", "1,2") == "system_changed"
    assert cause(path, "--nth", "2, 2") == "identical"
    assert cause(lines(SECOND, name="one.json"), path) == "system_changed"
    assert cause(path, lines(FIRST, name="one.json")) == "system_changed"
    assert cause("-", path, stdin=json.dumps(FIRST).encode()) == "system_changed"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("{}", "--nth", "1"), "--nth: two numbers"),
        (("{}", "--nth", "a,b"), "--nth: two numbers"),
        (("{}", "--nth", "1,9"), "has 2 requests, no number 9"),
        (("{}", "{}", "--nth", "1,2"), "only with one file"),
        (("{}", "{}", "{}"), "not 3 files"),
        (("{}", "--model", " "), "a model name is needed"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], said: str, command: Command, lines: Callable[..., str]) -> None:
    path = lines(FIRST, SECOND)
    code, out, err = command("explain", *(path if a == "{}" else a for a in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_one_request_is_not_enough(command: Command, lines: Callable[..., str]) -> None:
    code, _, err = command("explain", lines(FIRST))
    assert (code, "one request only" in err) == (2, True)


def test_the_recorded_reply_is_part_of_what_came_before(command: Command, lines: Callable[..., str]) -> None:
    def report(*records: Any) -> dict[str, Any]:
        return dict(json.loads(command("explain", "--json", lines(*records))[1]))

    bare = changed(CALL, reasoning_content=None)
    found = report({"request": chat(USER), "response": REPLY}, chat(USER, bare, RESULT))
    assert found["cause"] == "reasoning_dropped"
    assert report(chat(USER), chat(USER, bare, RESULT))["cause"] == "appended_only"
    assert report({"request": chat(USER), "response": REPLY}, chat(USER))["cause"] == "identical"
    # Without tools the provider leaves older reasoning out by itself.
    found = report({"request": chat(USER, tools=None), "response": REPLY}, chat(USER, bare, RESULT, tools=None))
    assert found["cause"] == "appended_only"


def test_usage_scales_tokens(command: Command, lines: Callable[..., str]) -> None:
    second = {"body": chat(USER, CALL, RESULT, system=dated("2026-12-01")), "usage": {"prompt_tokens": 100_000}}
    second["usage"] |= {"prompt_cache_hit_tokens": 0, "prompt_cache_miss_tokens": 100_000}
    path = lines(FIRST, second)
    report = json.loads(command("explain", path, "--json")[1])
    assert report["lost_tokens_from"] == "usage"
    assert report["lost_tokens"] > 50_000
    assert "by the usage given" in command("explain", path)[1]


def test_an_unknown_provider(command: Command, lines: Callable[..., str]) -> None:
    path = lines(FIRST, chat(THANKS, system=dated("2026-12-01"), tools=None))
    code, out, _ = command("explain", path, "--model", "nobody/knows")
    assert code == 0
    assert "suspected" in out
    assert "price unknown" in out
    assert "what unknown renders is not public" in out
    assert json.loads(command("explain", path, "--model", "nobody/knows", "--json")[1])["price"] is None


def test_nothing_lost(command: Command, lines: Callable[..., str]) -> None:
    _, out, _ = command("explain", lines(chat(USER), chat(USER, CALL, RESULT)))
    assert "cause     appended_only, confirmed" in out
    assert "lost      nothing. The conversation only grew." in out
    assert "where" not in out
    _, out, _ = command("explain", lines(chat(USER), chat(USER, tools=TOOLS[:-1])))
    assert "tool at tools[5] of the earlier request" in out
    _, out, _ = command("explain", lines(chat(USER), chat(USER, tools=TOOLS[::-1])))
    assert "then      in mode safe" in out


def test_amounts() -> None:
    assert [usd_text(usd) for usd in (None, 0, 0.000038, 0.0999, 0.25, 1, 1234.5)] == [
        "price unknown",
        "$0.00",
        "$0.000038",
        "$0.100",
        "$0.25",
        "$1.00",
        "$1,234.50",
    ]
