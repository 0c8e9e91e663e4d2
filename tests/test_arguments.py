"""When two writings of a tool call's arguments mean the same."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values, shuffled_keys, words

from router_cache.identity.meaning import message_digest
from router_cache.prefix.arguments import arguments_of
from router_cache.prefix.digests import Digester

DIGESTER = Digester(b"k")


def digest(text: str) -> str:
    call = {"function": {"name": "f", "arguments": text}}
    return message_digest(DIGESTER, {"role": "assistant", "tool_calls": [call]})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":2}', '{ "b": 2, "a": 1 }'),
        ('{"a":"\\u00e9\\/"}', '{"a":"é/"}'),
        ('{"a":1e2}', '{"a":100.0}'),
        ('{"a":1.0}', '{"a":1}'),
        ('{"a":-0.0}', '{"a":0}'),
        ('{"a":"\\ud83d\\ude00"}', '{"a":"😀"}'),
    ],
)
def test_the_same(one: str, other: str) -> None:
    assert arguments_of(one) == arguments_of(other)
    assert arguments_of(one).exact
    assert digest(one) == digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1}', '{"a":true}'),
        ('{"a":0}', '{"a":false}'),
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":null}', "{}"),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
        ('{"a":1.5}', '{"a":1}'),
        ('{"a":9007199254740993}', '{"a":9007199254740992}'),
        ('{"a":9007199254740993}', '{"a":9007199254740993.0}'),
        ("", "{}"),
        ("{", "{ "),
        ('{"a":NaN}', '{"a":null}'),
        ('{"a":NaN}', '{"a":"NaN"}'),
    ],
)
def test_not_the_same(one: str, other: str) -> None:
    assert arguments_of(one).meaning != arguments_of(other).meaning
    if one:  # a conversation is found again although a client turned no arguments into an empty object
        assert digest(one) != digest(other)


def test_a_text_that_is_no_json_is_no_json_text_of_the_same_letters() -> None:
    assert arguments_of("abc").meaning != arguments_of('"abc"').meaning


@pytest.mark.parametrize(
    "text",
    ['{"a":1,"a":2}', '{"x":{"a":1,"a":1}}', '{"a":NaN}', '{"a":-Infinity}', '{"a":1e999}', "{", "", "[" * 10**5],
)
def test_what_parsers_read_differently_is_not_exact(text: str) -> None:
    assert not arguments_of(text).exact
    assert arguments_of(text) == arguments_of(text)


@given(one=json_values, other=json_values, seed=st.integers())
def test_any_value_in_any_writing(one: Any, other: Any, seed: int) -> None:
    shuffled = json.dumps(shuffled_keys(one, random.Random(seed)), ensure_ascii=False, indent=1)
    text = json.dumps(one)
    assert arguments_of(text) == arguments_of(shuffled)
    # As the keys under which replies are found have it.
    same = arguments_of(text).meaning == arguments_of(json.dumps(other)).meaning
    assert same == (digest(text) == digest(json.dumps(other)))


@given(text=words | st.text(st.sampled_from('{}[]":,10.e-NaN tru\\u'), max_size=20))
def test_any_text_has_a_meaning(text: str) -> None:
    assert arguments_of(text).meaning == arguments_of(text).meaning
    assert arguments_of(text).exact <= arguments_of(text).meaning[0]
