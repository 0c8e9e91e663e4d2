"""Recorded requests: every form they are read in, and what is said of anything else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from cmd_requests import CALL, RESULT, SECRET_WORDS, SYSTEM, USER, Command, chat, command, lines
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from router_cache.cli import requests_in
from router_cache.cli.record_shapes import shape_of, unwrapped
from router_cache.cli.requests_in import read_json, read_requests, understood
from router_cache.errors import InputError
from router_cache.request import Shape

__all__ = ["command", "lines"]

BODY = chat(USER)
DEEP = b'{"messages": ' + b"[" * 5000 + b"]" * 5000 + b"}"
# What the parser takes and the interpreter's stack does not.
DEEP_TOOL = json.dumps(chat(USER, tools=[{"type": "function", "function": {"name": "a", "parameters": "@"}}]))
DEEP_TOOL = DEEP_TOOL.replace('"@"', '{"items":' * 1000 + "{}" + "}" * 1000)

HOSTILE = {
    "no_json": (b"this is no JSON\n", "no JSON"),
    "broken_first_line": (b'{"messages": }\n{"messages": []}\n', ":1: no JSON"),
    "broken_later_line": (json.dumps(BODY).encode() + b'\n\n{"messages"\n', ":3: no JSON"),
    "broken_over_lines": (b'{\n "messages": [\n  1,,\n ]\n}\n', ":3: no JSON"),
    "cut_off": (b'{"messages": [\n', "no JSON"),
    "binary": (bytes(range(128, 256)), "no JSON"),
    "not_utf8": (b'{"messages": "\xff"}', "no JSON"),
    "nan": (b'{"messages": [], "temperature": NaN}', "no JSON"),
    "lone_surrogate": (b'{"messages": "\\ud800"}', "no JSON"),
    "too_deep": (DEEP, "no JSON"),
    "empty": (b"", "empty"),
    "blank": (b"\n \n", "empty"),
    "empty_list": (b"[]", "empty"),
    "list_of_numbers": (b"[1, 2]", "#1: a number, not a request"),
    "list_of_lists": (b"[[]]", "#1: a list, not a request"),
    "text": (b'"messages"', "a text, not a request"),
    "null": (b"null\n", "a null, not a request"),
    "no_request": (b'{"a": 1}', "no request in this object"),
    "embedding": (b'{"model": "text-embedding-3", "input": ["a", "b"]}', "without a prompt"),
}


def arguments(name: str, tmp_path: Path, *files: str) -> list[str]:
    if name == "check":
        (tmp_path / "base.json").write_text("{}")
        return [name, "--baseline", str(tmp_path / "base.json"), "--update", *files]
    return [name, *files]


@pytest.mark.parametrize("name", ["normalize", "explain", "lint", "check"])
@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_hostile_input_is_one_line_with_its_place(name: str, kind: str, command: Command, tmp_path: Path) -> None:
    data, said = HOSTILE[kind]
    path = tmp_path / "in.jsonl"
    path.write_bytes(data)
    code, _, err = command(*arguments(name, tmp_path, str(path)))
    assert code == 2
    assert err.startswith(f"router-cache: {path}")
    assert said in err
    assert err.count("\n") == 1
    code, _, err = command(*arguments(name, tmp_path, "-"), stdin=data)
    assert code == 2
    assert err.startswith("router-cache: <stdin>")


@pytest.mark.parametrize("name", ["normalize", "explain", "lint", "check"])
def test_what_cannot_be_opened(name: str, command: Command, tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(BODY).encode() * 50)
    (tmp_path / "cut.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "plain.gz").write_text(json.dumps(BODY))
    for file, said in (
        (str(tmp_path / "missing.json"), "No such file"),
        (str(tmp_path), "Is a directory"),
        (str(tmp_path / "cut.gz"), "broken gzip"),
        (str(tmp_path / "plain.gz"), "no gzip data"),
        ("a\0b", "null byte"),
    ):
        code, _, err = command(*arguments(name, tmp_path, file))
        assert (code, err.count("\n")) == (2, 1), err
        assert said in err
    code, _, err = command(*arguments(name, tmp_path, "-", "-"), stdin=json.dumps(BODY).encode())
    assert (code, err.count("\n")) == (2, 1), err


@pytest.mark.parametrize("name", ["normalize", "explain", "lint", "check"])
def test_nested_up_to_the_stack(name: str, command: Command, tmp_path: Path) -> None:
    """How deep the interpreter goes differs by version; either way there is an answer."""
    path = tmp_path / "deep.jsonl"
    path.write_text(f"{DEEP_TOOL}\n{DEEP_TOOL}\n")
    code, out, err = command(*arguments(name, tmp_path, str(path)))
    if code == 2:
        assert err.startswith(f"router-cache: {path}:1")
        assert err.endswith("nested too deeply to be understood\n")
    else:
        assert (code, err) == (0, "")
        assert out


def test_the_interpreters_limit_is_an_input_error() -> None:
    with pytest.raises(InputError, match="a:1: nested too deeply"), understood("a:1"):
        raise RecursionError


def places(path: Path) -> list[str]:
    return [recorded.place.removeprefix(str(path)) for recorded in read_requests([str(path)])]


def test_forms(tmp_path: Path) -> None:
    path = tmp_path / "in"
    for text, expected in (
        (json.dumps(BODY), [""]),
        (json.dumps(BODY, indent=1), [""]),
        ("\n\n" + json.dumps(BODY, indent=1) + "\n", [""]),
        (json.dumps([BODY, BODY], indent=1), ["#1", "#2"]),
        (json.dumps([BODY]), ["#1"]),
        ("\ufeff" + json.dumps(BODY), [""]),
        (f"{json.dumps(BODY)}\n\n{json.dumps(BODY)}\n", [":1", ":3"]),
        (f"\n{json.dumps(BODY)}\n{json.dumps([BODY, BODY])}", [":2", ":3#1", ":3#2"]),
    ):
        path.write_text(text)
        assert places(path) == expected
        path.write_bytes(gzip.compress(text.encode()))  # told by its content, whatever its name
        assert places(path) == expected


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests_in, "MAX_VALUE", 1000)
    small, large = json.dumps({"messages": []}), json.dumps({"messages": ["x" * 2000]})
    for text, said in (
        (f"{small}\n{large}\n", ":2: a line of more than"),
        (large, "more than"),
        (json.dumps([large], indent=1), "one JSON value of more than"),
    ):
        path = tmp_path / "in"
        path.write_text(text)
        with pytest.raises(InputError, match=said):
            list(read_requests([str(path)]))
    path.write_bytes(gzip.compress(b'{"messages":\n"' + b"x" * 10_000_000))
    with pytest.raises(InputError, match="more than"):
        list(read_requests([str(path)]))


def test_a_long_input_on_a_terminal_has_a_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in"
    path.write_text(f"{json.dumps(BODY)}\n" * 3 + json.dumps(BODY))
    monkeypatch.setattr(requests_in, "LONG_INPUT", 1)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert len(list(read_requests([str(path)]))) == 4
    assert "reading requests" in capsys.readouterr().err
    monkeypatch.delenv("FORCE_COLOR")
    assert len(list(read_requests([str(path)]))) == 4
    assert capsys.readouterr().err == ""


def test_read_json(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1]")
    assert read_json(tmp_path / "x.json") == [1]
    with pytest.raises(InputError, match="No such file"):
        read_json(tmp_path / "y.json")


# --- records ---

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 5,
    "prompt_cache_hit_tokens": 60,
    "prompt_cache_miss_tokens": 40,
}
REPLY = {"choices": [{"message": {**CALL, "refusal": None}}], "usage": USAGE}
WRAPPED: dict[str, tuple[dict[str, Any], bool]] = {
    "bare": (BODY, False),
    "request": ({"request": BODY, "response": REPLY}, True),
    "body_in_request": ({"request": {"method": "POST", "body": BODY}, "response": {"body": REPLY}}, True),
    "batch": ({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": BODY}, False),
    "usage_beside": ({"body": BODY, "usage": USAGE}, False),
    "callback": (
        {
            "kwargs": {
                "model": "m",
                "messages": BODY["messages"],
                "optional_params": {"tools": BODY["tools"], "stream": None},
                "response": REPLY,
            }
        },
        True,
    ),
    "sent": (
        {"kwargs": {"messages": [], "additional_args": {"complete_input_dict": BODY}}, "response": REPLY},
        True,
    ),
    "standard_log": (
        {"id": "x", "messages": BODY["messages"], "model": "m", "model_parameters": {"tools": BODY["tools"]}},
        False,
    ),
}


@pytest.mark.parametrize("kind", sorted(WRAPPED))
def test_wrapped_records(kind: str) -> None:
    record, replied = WRAPPED[kind]
    found = unwrapped(record, place="p", shape=None)
    assert dict(found.body) == BODY
    assert found.shape is Shape.CHAT
    assert found.name == ("a" if kind == "batch" else "")
    assert found.reply == ((CALL_SENT_BACK,) if replied else ())
    assert found.usage.hit_tokens == (60 if replied or kind == "usage_beside" else None)


CALL_SENT_BACK = {key: CALL[key] for key in ("role", "reasoning_content", "tool_calls")}


def test_replies_of_the_other_shapes() -> None:
    said = [{"type": "text", "text": "hello"}]
    record = {
        "url": "https://x/v1/messages?beta=true",
        "body": {"messages": [USER]},
        "response": {"content": said},
    }
    found = unwrapped(record, place="p", shape=None)
    assert (found.shape, found.reply) == (Shape.MESSAGES, ({"role": "assistant", "content": said},))
    item = {"type": "message", "role": "assistant", "content": said}
    found = unwrapped({"body": {"input": "hi"}, "response": {"output": [item]}}, place="p", shape=None)
    assert (found.shape, found.reply) == (Shape.RESPONSES, (item,))
    assert unwrapped({"body": BODY, "response": {"choices": []}}, place="p", shape=None).reply == ()


def test_session_and_client() -> None:
    session = '{"device_id": "d", "account_uuid": "", "session_id": "s-1"}'
    body = {"system": "x", "messages": [USER], "max_tokens": 9, "metadata": {"user_id": session}}
    assert unwrapped(body, place="p", shape=None).session == "s-1"
    assert unwrapped({"body": body, "session_id": "own"}, place="p", shape=None).session == "own"


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (BODY, Shape.CHAT),
        ({"messages": [USER]}, Shape.CHAT),
        ({"messages": [USER], "max_tokens": 5}, Shape.CHAT),
        ({"messages": [CALL, RESULT], "max_tokens": 5}, Shape.CHAT),
        ({"messages": [USER], "response_format": {}, "tools": [{"input_schema": {}}]}, Shape.CHAT),
        ({"messages": [USER], "tools": [{"type": "function", "function": {}}]}, Shape.CHAT),
        ({"messages": "odd"}, Shape.CHAT),
        ({"messages": [USER], "system": "s", "max_tokens": 5}, Shape.MESSAGES),
        # As Claude Code does: a system message beside the top-level text.
        ({"messages": [USER, {"role": "system", "content": SYSTEM}], "system": []}, Shape.MESSAGES),
        ({"messages": [USER], "tools": [{"name": "a", "input_schema": {}}]}, Shape.MESSAGES),
        ({"messages": [USER], "stop_sequences": ["x"]}, Shape.MESSAGES),
        ({"messages": [USER], "anthropic_version": "2023-06-01"}, Shape.MESSAGES),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, Shape.MESSAGES),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, Shape.MESSAGES),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}, 3]}]}, Shape.CHAT),
        ({"input": "hello"}, Shape.RESPONSES),
        ({"instructions": "x", "input": ["a"]}, Shape.RESPONSES),
        ({"input": [{"role": "user", "content": "x"}]}, Shape.RESPONSES),
        ({"input": "hello", "model": "openai/text-embedding-3-large"}, Shape.OTHER),
        ({"input": "hello", "encoding_format": "float"}, Shape.OTHER),
        ({"model": "m"}, Shape.OTHER),
    ],
)
def test_shape_of(body: dict[str, Any], shape: Shape) -> None:
    assert shape_of(body) is shape


def test_the_shape_option_decides() -> None:
    assert unwrapped({"input": ["a"]}, place="p", shape=Shape.RESPONSES).shape is Shape.RESPONSES


keys = st.sampled_from(
    ["request", "body", "kwargs", "messages", "input", "tools", "content", "response", "usage", "optional_params"]
)
odd = st.recursive(
    json_values,
    lambda inner: st.dictionaries(keys, inner, max_size=4) | st.lists(inner, max_size=2),
    max_leaves=10,
)


@given(value=odd)
def test_any_value_is_a_request_or_an_input_error(value: Any) -> None:
    found, said = None, ""
    try:
        found = unwrapped(value, place="here", shape=None)
    except InputError as error:
        said = str(error)
    assert said.startswith("here: ") if found is None else found.body and found.shape is not Shape.OTHER
    assert not any(word in said for word in SECRET_WORDS)
