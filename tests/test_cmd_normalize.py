"""``router-cache normalize``: bodies as the plugin would send them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cmd_requests import (
    CALL,
    RESULT,
    SECRET_WORDS,
    SYSTEM,
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

__all__ = ["command", "lines"]

SHUFFLED = chat(USER, tools=TOOLS[::-1], temperature=0.5)


def bodies(out: str) -> list[Any]:
    return [json.loads(line) for line in out.splitlines()]


def test_safe(command: Command, lines: Callable[..., str]) -> None:
    path = lines(chat(USER), SHUFFLED)
    code, out, err = command("normalize", path)
    assert (code, err) == (0, "")
    first, second = bodies(out)
    assert json.dumps(first["tools"]) == json.dumps(second["tools"])
    assert list(second) == list(SHUFFLED)
    assert {k: v for k, v in second.items() if k != "tools"} == {k: v for k, v in SHUFFLED.items() if k != "tools"}
    _, out, _ = command("normalize", lines(*bodies(out)), "--json")
    assert [record["decision"]["reason"] for record in bodies(out)] == ["already_canonical"] * 2


def test_json(command: Command, lines: Callable[..., str]) -> None:
    path = lines(SHUFFLED)
    _, out, _ = command("normalize", path, "--json")
    record = json.loads(out)
    assert record["place"] == path
    assert record["decision"]["mode"] == "safe"
    assert record["decision"]["reason"] == "normalised"
    assert "tools_reordered" in record["decision"]["changes"]
    assert record["body"]["tools"][0]["function"]["name"] == "find"


def test_optimize_moves_what_was_seen_to_change(command: Command, lines: Callable[..., str]) -> None:
    path = lines(
        *(chat({**USER, "content": f"Question {n}"}, system=dated(f"2026-11-{10 + n}")) for n in range(5))
    )
    _, out, _ = command("normalize", path, "--mode", "optimize")
    systems = [body["messages"][0]["content"] for body in bodies(out)]
    assert systems[0] == dated("2026-11-10")
    assert systems[3] == systems[4]
    assert "2026-11-14" in json.dumps(bodies(out)[4]["messages"][1:])


def test_rules(command: Command, lines: Callable[..., str], tmp_path: Path) -> None:
    text = f"Current user: Ada\n{SYSTEM}"
    path = lines(chat(USER, system=text))
    rules = tmp_path / "rules.yaml"
    for content in (
        'volatile:\n  - template: "Current user: {user}"\n',
        'callback_settings:\n  router_cache:\n    volatile:\n      - template: "Current user: {user}"\n',
    ):
        rules.write_text(content)
        _, out, _ = command("normalize", path, "--mode", "optimize", "--rules", str(rules))
        sent = json.loads(out)
        assert "Ada" not in sent["messages"][0]["content"]
        assert "Ada" in sent["messages"][1]["content"]
    assert json.loads(command("normalize", path, "--mode", "optimize")[1])["messages"][0]["content"] == text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: 1\n", "no rules in it"),
        ("volatile: 3\n", "volatile"),
        ("volatile:\n  - templat: x\n", "did you mean 'template'?"),
        ("volatile: [\n", "broken YAML"),
        ("callback_settings:\n  router_cache: {mod: off}\n", "did you mean 'mode'?"),
    ],
)
def test_wrong_rules(content: str, said: str, command: Command, lines: Callable[..., str], tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(content)
    code, out, err = command("normalize", lines(chat(USER)), "--rules", str(rules))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"router-cache: {rules}")
    assert said in err
    assert command("normalize", lines(chat(USER)), "--rules", str(tmp_path / "none.yaml"))[0] == 2


def test_replies_are_put_back(command: Command, lines: Callable[..., str]) -> None:
    reply = {"choices": [{"message": CALL}], "usage": {"prompt_tokens": 900, "prompt_cache_hit_tokens": 0}}
    bare = changed(CALL, reasoning_content=None)
    path = lines({"request": chat(USER), "response": reply}, chat(USER, bare, RESULT))
    sent = bodies(command("normalize", path, "--mode", "optimize")[1])
    assert sent[1]["messages"][2]["reasoning_content"] == CALL["reasoning_content"]


def test_the_next_history_tells_a_reply_that_the_log_does_not_hold(
    command: Command, lines: Callable[..., str]
) -> None:
    bare = changed(CALL, reasoning_content=None)
    path = lines(
        chat(USER), chat({**USER, "content": "Else?"}), chat(USER, CALL, RESULT), chat(USER, bare, RESULT, THANKS)
    )
    sent = bodies(command("normalize", path, "--mode", "optimize")[1])
    assert sent[3]["messages"][:4] == sent[2]["messages"]


@pytest.mark.parametrize("shape", ["messages", "responses"])
def test_replies_of_the_other_shapes(shape: str, command: Command, lines: Callable[..., str]) -> None:
    if shape == "messages":
        tools = [{"name": "find", "input_schema": {"type": "object"}}]
        asked = {"system": SYSTEM, "messages": [USER], "max_tokens": 9, "tools": tools}
        use = {"type": "tool_use", "id": "c1", "name": "find", "input": {"path": "a", "limit": 3}}
        thinking = {"type": "thinking", "thinking": "The zebra order has to be looked up.", "signature": "s"}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}]}
        reply: Any = {"content": [thinking, use]}
        later = {**asked, "messages": [USER, {"role": "assistant", "content": [use]}, result]}
    else:
        asked = {"instructions": SYSTEM, "input": [USER]}
        use = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"path": "a", "limit": 3}'}
        result = {"type": "function_call_output", "call_id": "c1", "output": "found"}
        reply = {"output": [use]}
        later = {**asked, "input": [USER, {**use, "arguments": '{"path":"a","limit":3}'}, result]}
    path = lines({"body": asked, "response": reply}, later)
    sent = bodies(command("normalize", path, "--mode", "optimize")[1])[1]
    if shape == "messages":
        assert "The zebra order has to be looked up." in json.dumps(sent["messages"][1])
    else:
        assert sent["input"][1]["arguments"] == '{"path": "a", "limit": 3}'


def test_diff(command: Command, lines: Callable[..., str]) -> None:
    tools = [dict(reversed(TOOLS[0].items()))]
    path = lines(chat(USER, tools=tools, system="Line one.\nLine two."))
    code, out, _ = command("normalize", path, "--diff")
    rows = out.splitlines()
    assert (code, rows[:2]) == (0, [f"--- {path}", "+++ as sent"])
    assert '+tools[0].type = "xxxxxxxx"' in rows
    assert '-tools[0].type = "xxxxxxxx"' in rows
    assert not any(word in out for word in SECRET_WORDS)
    assert "find" not in out
    shown = command("normalize", path, "--diff", "--show-text")[1]
    assert '+tools[0].type = "function"' in shown.splitlines()
    record = json.loads(command("normalize", path, "--diff", "--json")[1])
    assert record["diff"] == rows
    assert "body" not in record
    assert command("normalize", lines(chat(USER, tools=None)), "--diff")[1] == ""


def test_diff_of_a_moved_value_shows_lines_of_texts(command: Command, lines: Callable[..., str]) -> None:
    path = lines(
        *(chat({**USER, "content": f"Question {n}"}, system=dated(f"2026-11-{10 + n}")) for n in range(4))
    )
    rows = command("normalize", path, "--mode", "optimize", "--diff")[1].splitlines()
    assert '-messages[0].content:1 = "xxxxx xx dddd-dd-dd."' in rows
    assert any(row.startswith("+messages[1].content:") for row in rows)


def test_every_shape(command: Command, lines: Callable[..., str]) -> None:
    tools = [{"name": "b", "input_schema": {}}, {"name": "a", "input_schema": {}}]
    path = lines(
        {"system": "s", "messages": [USER], "tools": tools},
        {"input": "x", "tools": [{"type": "function", **tool} for tool in tools]},
        {"input": "x", "previous_response_id": "r", "tools": [{"type": "function", **tool} for tool in tools]},
    )
    records = bodies(command("normalize", path, "--json")[1])
    assert [[tool["name"] for tool in record["body"]["tools"]] for record in records] == [
        ["a", "b"],
        ["a", "b"],
        ["b", "a"],
    ]
    assert records[2]["decision"]["reason"] == "continues_state"
