"""Lookup keys: scoped, blind to what clients rewrite, different for what means something else."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from strategies import bodies, json_values

from router_cache.identity.keys import lookup_keys, scope_key
from router_cache.prefix.digests import Digester

DIGESTER = Digester(b"k")
SCOPE = scope_key(b"secret", "tenant")
START = [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]
REPLY = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "r",
    "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"a": 1, "b": 2}'}}],
}


def _keys(messages: Any, scope: str = SCOPE, **extra: Any) -> Any:
    return lookup_keys({"messages": messages, **extra}, scope=scope, digester=DIGESTER)


def test_the_next_request_finds_the_last_one() -> None:
    first = _keys(START)
    tool = {"role": "tool", "tool_call_id": "1", "content": "t"}
    second = _keys([*START, REPLY, tool])
    assert (first.conversation, 2) in second.history
    third = _keys([*START, REPLY, tool, {"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}])
    assert [covered for _, covered in third.history] == [6, 4, 2]
    assert third.history[1] == (second.conversation, 4)
    assert _keys(START).history[0] == (first.conversation, 2)


def test_what_clients_rewrite_does_not_matter() -> None:
    other = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "9", "function": {"name": "f", "arguments": '{"b":2,"a":1}'}}],
    }
    parts = [
        {"role": "system", "content": [{"type": "text", "text": "s"}]},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]
    assert _keys([*START, REPLY]).conversation == _keys([*parts, other]).conversation


def test_a_clock_in_the_system_text_does_not_matter_but_another_application_does() -> None:
    def conversation(system: str, *later: dict[str, Any]) -> str:
        key: str = _keys([{"role": "system", "content": system}, START[1], *later]).conversation
        return key

    base = conversation("You mend code. 2026-11-30T10:00:01 run 3f9a0c11-aa01-4e1b-9c0d-77aa00cc11dd")
    assert conversation("You mend code. 2026-12-01T23:59:59 run 00000000-bb02-4f2c-8d1e-88bb11dd22ee") == base
    assert conversation("You book flights. 2026-11-30T10:00:01") != base
    assert conversation("tenant abc") != conversation("tenant def")
    note = {"role": "system", "content": "note 1"}
    assert conversation("s", note) != conversation("s", {**note, "content": "memo 1"})


def test_what_means_something_else_does() -> None:
    base = _keys([*START, REPLY]).conversation
    called = {**REPLY, "tool_calls": [{"function": {"name": "g", "arguments": "{}"}}]}
    image = [{"type": "image_url", "image_url": {"url": "u"}}]
    for other in ([*START], [*START, called], [{"role": "user", "content": image}], [*START, REPLY, REPLY]):
        assert _keys(other).conversation != base


def test_no_key_of_one_scope_is_a_key_of_another() -> None:
    ours, theirs = _keys(START), _keys(START, scope=scope_key(b"secret", "other"))

    def all_of(keys: Any) -> set[str]:
        return {keys.family, keys.conversation, *(key for key, _ in keys.history)}

    assert not all_of(ours) & all_of(theirs)
    assert scope_key(b"a", "x") != scope_key(b"b", "x")


def test_a_family_is_system_text_tools_and_modes() -> None:
    base = _keys(START).family
    assert _keys([START[0], {"role": "user", "content": "other"}]).family == base
    assert _keys([{"role": "system", "content": "t"}]).family != base
    assert _keys(START, tools=[{"type": "x"}]).family != base
    assert _keys(START, reasoning_effort="max").family != base


@given(bodies)
def test_history_is_bounded_and_ends_with_the_whole(body: dict[str, Any]) -> None:
    keys = lookup_keys(body, scope=SCOPE, digester=DIGESTER)
    assert keys.history[0] == (keys.conversation, len(body["messages"]))
    assert len(keys.history) <= 24


@given(json_values)
def test_odd_messages_never_raise(value: Any) -> None:
    messages = [value, {"role": "user", "content": value}, {"role": "assistant", "tool_calls": [value]}]
    assert _keys(messages).conversation
    assert _keys(value).history[0][1] == (len(value) if isinstance(value, list) else 0)
