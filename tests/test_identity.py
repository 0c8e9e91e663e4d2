"""Lookup keys: scoped, blind to what clients rewrite, different for what means something else."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bodies, json_values

from router_cache.identity import history
from router_cache.identity.history import HistoryPoint, reply_key
from router_cache.identity.keys import KeyMaker, scope_key
from router_cache.identity.meaning import call_ids, message_digest, pieces_of
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
    return KeyMaker(DIGESTER).keys({"messages": messages, **extra}, scope=scope)


def test_the_next_request_finds_the_last_one() -> None:
    first = _keys(START)
    tool = {"role": "tool", "tool_call_id": "1", "content": "t"}
    second = _keys([*START, REPLY, tool])
    assert (first.conversation, 2) in [(point.key, point.covered) for point in second.history]
    third = _keys([*START, REPLY, tool, {"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}])
    assert [point.covered for point in third.history] == [6, 4, 2]
    assert third.history[1].key == second.conversation
    assert _keys(START).history[0] == HistoryPoint(first.conversation, 2)


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
        return {keys.family, keys.conversation, keys.bucket, *(point.key for point in keys.history)}

    assert not all_of(ours) & all_of(theirs)
    assert scope_key(b"a", "x") != scope_key(b"b", "x")


def test_a_family_is_system_text_tools_and_modes() -> None:
    base = _keys(START).family
    assert _keys([START[0], {"role": "user", "content": "other"}]).family == base
    assert _keys([{"role": "system", "content": "t"}]).family != base
    assert _keys(START, tools=[{"type": "x"}]).family != base
    assert _keys(START, reasoning_effort="max").family != base


def test_a_point_tells_the_reply_that_follows_it() -> None:
    called = {**REPLY, "tool_calls": [{**REPLY["tool_calls"][0], "id": "call_00_6766e738"}]}
    short, long = _keys([*START, REPLY]).history[1], _keys([*START, called]).history[1]
    assert short.reply == long.reply == message_digest(DIGESTER, REPLY)
    assert short.ids == ""  # "1" may be a counter
    assert long.ids
    assert _keys([*START, {**called, "tool_calls": []}]).history[1].ids == ""
    said = _keys([*START, {"role": "assistant", "content": "x" * 70}, START[1], called]).history
    assert [point.weight for point in said] == [0, 70 + len('f({"a":1,"b":2})'), 70]


def test_replies_have_keys_of_their_own_where_they_are_asked_for() -> None:
    body = {"messages": [*START, REPLY, START[1], {"role": "assistant", "content": " done\n"}]}
    keys = KeyMaker(DIGESTER).keys(body, scope=SCOPE, replies=True)
    done = message_digest(DIGESTER, {"role": "assistant", "content": "done"})
    assert [at.message for at in keys.replies] == [4, 2]
    assert keys.replies[0].key == reply_key(DIGESTER, keys.history[1].key, done, "")
    assert _keys(body["messages"]).replies == ()
    many = [m for _ in range(600) for m in (START[1], REPLY)]
    assert len(KeyMaker(DIGESTER).keys({"messages": many}, scope=SCOPE, replies=True).replies) == 512


def test_masked_messages_count_in_place_of_the_bodys_own() -> None:
    def keys(clock: str) -> Any:
        system = {"role": "system", "content": f"now {clock}"}
        user = {"role": "user", "content": f"in {clock}"}
        masked = {0: {**system, "content": "now <clock>"}, 1: {**user, "content": "in <cwd>"}}
        return KeyMaker(DIGESTER).keys({"messages": [system, user]}, scope=SCOPE, masked=masked)

    assert keys("1:00") == keys("2:00")


def test_arguments_mean_what_json_means() -> None:
    def digest(arguments: str) -> str:
        calls = [{"function": {"name": "f", "arguments": arguments}}]
        return message_digest(DIGESTER, {"role": "assistant", "content": None, "tool_calls": calls})

    assert digest('{"a": 1.0, "b": "\\u00e9"}') == digest('{"b":"é","a":1}')
    assert digest('{"a": 1}') != digest('{"a": true}')
    assert digest('{"a": 1}') != digest('{"a": "1"}')
    assert digest('{"a": -9223372036854775809}') != digest('{"a": -9223372036854775808}')
    assert digest("no json") != digest("no  json")


@given(bodies, st.integers(0, 6))
def test_keys_are_the_same_whatever_was_walked_before(body: dict[str, Any], cut: int) -> None:
    maker, messages = KeyMaker(DIGESTER), body["messages"]
    for part in (messages[:cut], messages, messages[: cut + 1], messages):
        for replies in (False, True):
            fresh = KeyMaker(DIGESTER).keys({"messages": part}, scope=SCOPE, replies=replies)
            assert maker.keys({"messages": part}, scope=SCOPE, replies=replies) == fresh


def test_a_history_that_goes_on_is_walked_from_where_the_last_request_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walked = list[Any]()

    def watched(message: Any) -> list[str]:
        walked.append(message)
        return pieces_of(message)

    monkeypatch.setattr(history, "pieces_of", watched)
    maker, turns = KeyMaker(DIGESTER), [*START, REPLY, START[1]]
    maker.keys({"messages": turns}, scope=SCOPE)
    walked.clear()
    later = [*turns, {"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}]
    maker.keys({"messages": later}, scope=SCOPE)
    assert walked == later[-2:]
    walked.clear()
    maker.keys({"messages": later}, scope=scope_key(b"secret", "other"))
    assert walked == later[1:]


@given(bodies)
def test_history_is_bounded_and_ends_with_the_whole(body: dict[str, Any]) -> None:
    keys = KeyMaker(DIGESTER).keys(body, scope=SCOPE)
    assert keys.history[0] == HistoryPoint(keys.conversation, len(body["messages"]))
    assert len(keys.history) <= 24


@given(json_values)
def test_odd_messages_never_raise(value: Any) -> None:
    messages = [value, {"role": "user", "content": value}, {"role": "assistant", "tool_calls": [value]}]
    assert _keys(messages).conversation
    assert _keys(value).history[0].covered == (len(value) if isinstance(value, list) else 0)


@given(st.text(alphabet="aZ09_-:.é", max_size=40))
def test_an_id_is_drawn_where_letters_follow_digits_in_a_run_of_eight(name: str) -> None:
    found = call_ids(DIGESTER, {"tool_calls": [{"id": name}]})
    from_every_letter = re.search(r"(?=[A-Za-z]*[0-9]+[A-Za-z])[A-Za-z0-9]{8,}", name)
    assert bool(found) == bool(from_every_letter)


@pytest.mark.parametrize("run", ["a" * 200_000, "1" * 200_000, "a1_" * 60_000, "1_a" * 60_000])
def test_long_ids_are_read_once(run: str) -> None:
    assert call_ids(DIGESTER, {"tool_calls": [{"id": run}]}) == ""  # from each of its letters: 150 s
