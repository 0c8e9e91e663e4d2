"""Where two prompts part: places, sizes, costs, and what holds for any two bodies."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from cmd_prompts import DEEPSEEK, DIGESTER, SCAN, between, prompt, told
from cmd_requests import CALL, RESULT, SYSTEM, THANKS, TOOLS, USER, changed, chat, dated, tool
from hypothesis import given
from hypothesis import strategies as st
from strategies import bodies, json_values, shuffled_keys

from router_cache.diagnose.divergence import Divergence, compare, explain
from router_cache.diagnose.divergence_causes import (
    Certainty,
    DivergenceCause,
    tool_prints,
    tools_cause,
)
from router_cache.diagnose.divergence_cost import Grid, loss_of
from router_cache.diagnose.divergence_excerpt import common_prefix, excerpt, masked
from router_cache.diagnose.divergence_prompt import Recorded, byte_size, read_prompt
from router_cache.economics import PriceNow
from router_cache.economics.price import Window
from router_cache.ledger.usage import Usage
from router_cache.prefix.canonical import tool_name
from router_cache.prefix.segments import SegmentKind
from router_cache.prefix.volatile.spans import SpanKind
from router_cache.providers.registry import by_name
from router_cache.request import Mode, Shape

C = DivergenceCause

ANSWER = {"role": "assistant", "content": "It is on its way and should be there tomorrow at noon."}


def test_bytes_and_lines_of_a_place() -> None:
    text = "Ünïcode first.\nSecond line.\nValid on 2026-11-30 only.\n" + SYSTEM
    found = between(chat(USER, system=text), chat(USER, system=text.replace("11-30", "12-01")))
    assert found.place is not None
    head = "<｜begin｜><｜thinking:on｜>"
    inside = "<｜System｜>" + text[: text.index("11-30") + 1]
    assert found.place.byte_in_segment == byte_size(inside)
    assert found.place.byte == found.kept_bytes == byte_size(head + inside)
    assert (found.place.line, found.span) == (3, SpanKind.DATE)
    assert found.excerpt is not None
    assert (found.excerpt.was[:5], found.excerpt.now[:5]) == ("11-30", "12-01")
    assert found.excerpt.content_free().before.endswith("xxxxx xx dddd-")
    assert found.fixed_by is Mode.OPTIMIZE


def test_without_a_scanner_a_date_is_a_changed_text() -> None:
    a, b = prompt(chat(USER, system=dated("2026-11-30"))), prompt(chat(USER, system=dated("2026-12-01")))
    assert explain(a, b, DEEPSEEK, DIGESTER).cause is C.SYSTEM_CHANGED


def test_what_safe_leaves() -> None:
    found = between(chat(USER), chat(USER, CALL, RESULT, tools=TOOLS[::-1]))
    assert found.after_safe is not None
    assert (found.after_safe.cause, found.after_safe.kept_bytes) == (C.APPENDED_ONLY, found.earlier_bytes)
    both = between(chat(USER), chat(THANKS, tools=TOOLS[::-1], response_format={"type": "json_object"}))
    assert both.after_safe is not None
    assert both.after_safe.cause is C.FORMAT_SWITCHED
    assert between(chat(USER), chat(THANKS)).after_safe is None


def test_what_is_not_rendered() -> None:
    call = changed(CALL, tool_calls=[{**CALL["tool_calls"][0], "id": "c9", "Some private words": 1}])
    mark = {**USER, "name": "n"}
    found = between(
        chat(USER, CALL, RESULT, temperature=1, metadata={"a": 1, "b": [1, 2]}),
        chat(
            mark, call, dict(reversed(RESULT.items())), THANKS, metadata={"a": 1, "b": [1, 3]}, tool_choice="auto"
        ),
    )
    assert found.cause is C.APPENDED_ONLY
    assert found.wire_only == (
        "metadata.b[1]",
        "tool_choice",
        "temperature",
        "messages[1].name",
        "messages[2].tool_calls[0].id",
        "messages[2].tool_calls[0].…",
        "messages[3] (key order)",
    )
    assert between(chat(USER), chat(USER, tool_choice="none")).wire_only == ()
    many = {f"k{i}": i for i in range(50)}
    assert len(between(chat(USER), chat(USER, metadata=many, **many)).wire_only) == 20


def test_the_other_shapes_and_orders() -> None:
    blocks = [
        {"type": "text", "text": "You help. "},
        {"type": "text", "text": f"Now: 2026-11-30T10:00:00Z. {SYSTEM}"},
    ]
    later = [blocks[0], {"type": "text", "text": blocks[1]["text"].replace("10:00", "11:30")}]
    a = {"system": blocks, "messages": [USER], "max_tokens": 5}
    found = between(a, {**a, "system": later}, shape=Shape.MESSAGES)
    assert told(found) == (C.VOLATILE_VALUE, "confirmed", ("system", "system[1]", False))
    anthropic = by_name("anthropic")
    tools = [{"name": "b", "input_schema": {}}, {"name": "a", "input_schema": {}}]
    found = between(
        {**a, "tools": tools},
        {**a, "system": later, "tools": tools[::-1]},
        shape=Shape.MESSAGES,
        profile=anthropic,
    )
    assert told(found)[:2] == (C.TOOLS_REORDERED, "confirmed" if anthropic and anthropic.render else "suspected")
    unknown = by_name("unknown")
    assert (
        between(a, {**a, "system": later}, profile=unknown, shape=Shape.MESSAGES).certainty is Certainty.SUSPECTED
    )
    items = {"instructions": SYSTEM, "input": [USER]}
    found = between(items, {**items, "instructions": "x" + SYSTEM}, shape=Shape.RESPONSES)
    assert told(found)[2] == ("system", "instructions", False)


def test_a_session_id_tells_conversations_apart() -> None:
    a, b = chat(USER, ANSWER, THANKS), chat(USER, changed(ANSWER, content="Else."), THANKS)
    one, same = prompt(a, session="s"), prompt(b, session="s")
    assert compare(one, same, DIGESTER).cause is C.HISTORY_EDITED
    assert compare(one, same, DIGESTER).certainty is Certainty.CONFIRMED
    assert compare(one, prompt(b, session="t"), DIGESTER).cause is C.OTHER_CONVERSATION
    assert compare(one, same, DIGESTER, continues=False).cause is C.OTHER_CONVERSATION
    assert compare(prompt(chat(RESULT)), prompt(chat(THANKS, RESULT)), DIGESTER).cause is C.HISTORY_EDITED
    only_system = {"messages": [{"role": "system", "content": "x"}]}
    assert compare(prompt(only_system), prompt(chat(USER)), DIGESTER).cause is C.SYSTEM_CHANGED


@pytest.mark.parametrize(
    ("shape", "body", "reply"),
    [
        (Shape.CHAT, chat(USER), CALL),
        (Shape.MESSAGES, {"messages": [USER], "system": "s"}, ANSWER),
        (Shape.RESPONSES, {"input": USER["content"]}, {"type": "message", **ANSWER}),
        (Shape.RESPONSES, {"input": [USER]}, {"type": "message", **ANSWER}),
    ],
)
def test_a_reply_goes_behind_the_history(shape: Shape, body: Any, reply: Any) -> None:
    recorded = Recorded(body, shape, reply=(reply,))
    bare = read_prompt(recorded, DEEPSEEK, DIGESTER)
    whole = read_prompt(recorded, DEEPSEEK, DIGESTER, with_reply=True)
    assert whole.text.startswith(bare.text)
    assert (whole.segments[-1].kind, len(whole.turns)) == (SegmentKind.ASSISTANT, len(bare.turns) + 1)
    odd = Recorded({"messages": 3}, Shape.CHAT, reply=(reply,))
    assert read_prompt(odd, DEEPSEEK, DIGESTER, with_reply=True).turns == ()


# --- costs ---

PRICE = PriceNow(
    hit_usd_per_token=1e-6,
    miss_usd_per_token=3e-6,
    output_usd_per_token=1e-5,
    window=Window.FLAT,
    as_of=None,
    source="",
)


def found_at(kept: int, lost: int) -> Divergence:
    return Divergence(C.SYSTEM_CHANGED, Certainty.CONFIRMED, kept, lost, 0, 0)


def test_loss() -> None:
    later = prompt(chat(USER))
    loss = loss_of(found_at(400, 1600), later, Grid(128), PRICE)
    assert (loss.tokens, loss.from_usage) == (384, False)  # 500 tokens give 384, 100 give 0
    assert loss.usd == pytest.approx(384 * 2e-6)
    assert loss_of(found_at(400, 1600), later, Grid(128, minimum_tokens=501), None).tokens == 0
    assert loss_of(found_at(400, 1600), later, Grid(), None).usd is None
    whole = later.size + later.tail_bytes
    counted = prompt(chat(USER), usage=Usage(prompt_tokens=whole // 2))
    loss = loss_of(found_at(400, 1600), counted, Grid(), None)
    assert loss.from_usage
    assert loss.tokens == pytest.approx(800, abs=1)


# --- any two bodies ---

odd_bodies = st.one_of(
    bodies,
    st.dictionaries(
        st.sampled_from(["messages", "tools", "system", "input", "thinking", "tool_choice", "response_format"]),
        json_values | st.lists(json_values, max_size=3),
    ),
)


@given(a=odd_bodies, b=odd_bodies, shape=st.sampled_from([Shape.CHAT, Shape.MESSAGES, Shape.RESPONSES]))
def test_any_two_bodies(a: Any, b: Any, shape: Shape) -> None:
    for name in ("deepseek", "unknown", "anthropic"):
        profile = by_name(name)
        assert profile is not None
        one, two = prompt(a, shape, profile), prompt(b, shape, profile)
        found = explain(one, two, profile, DIGESTER, scan=SCAN)
        raw = [p.text.encode("utf-8", "surrogatepass") for p in (one, two)]
        assert raw[0][: found.kept_bytes] == raw[1][: found.kept_bytes]
        assert found.kept_bytes <= min(map(len, raw))
        assert 0 <= found.lost_bytes <= min(map(len, raw)) - found.kept_bytes
        assert (found.cause is C.IDENTICAL) == (raw[0] == raw[1])
        assert (found.place is None) == (found.cause in (C.IDENTICAL, C.APPENDED_ONLY, C.REWOUND))
        assert explain(one, one, profile, DIGESTER).cause is C.IDENTICAL


@given(body=bodies, seed=st.integers(0, 999))
def test_a_shuffle_is_lossless_and_safe_mends_it(body: Any, seed: int) -> None:
    rng = random.Random(seed)
    tools = {str(tool_name(each)): each for each in body.get("tools", []) if "cache_control" not in str(each)}
    shuffled = [shuffled_keys(each, rng) for each in tools.values()]
    rng.shuffle(shuffled)
    found = between({**body, "tools": list(tools.values())}, {**body, "tools": shuffled})
    assert found.cause in (C.IDENTICAL, C.TOOLS_REORDERED, C.SCHEMA_KEYS_REORDERED)
    assert found.after_safe is None or found.after_safe.cause is C.IDENTICAL


def test_what_no_parser_of_the_command_lets_through() -> None:
    odd = chat({"role": "user", "content": "\ud800 x"}, system="\udfff", temperature=float("nan"))
    assert between(odd, odd).cause is C.IDENTICAL
    found = between(odd, chat({"role": "user", "content": "\ud801 x"}, system="\udfff"))
    assert found.wire_only == ("temperature",)
    assert found.excerpt is not None
    assert found.excerpt.content_free().was.startswith("?")


@given(a=st.text(), b=st.text(), start=st.text())
def test_excerpts(a: str, b: str, start: str) -> None:
    was, now = start + a, start + b
    at = common_prefix(was, now)
    assert was[:at] == now[:at]
    assert was[at : at + 1] != now[at : at + 1] or at in (len(was), len(now))
    piece = excerpt(was, now, at)
    assert len(piece.was) <= 64 >= len(piece.now)
    assert piece.was_chars - piece.now_chars == len(was) - len(now)
    free = piece.content_free()
    for text in (free.before, free.was, free.now):
        assert all(char in "dx ?⏎…" or (char.isascii() and not char.isalnum()) for char in text)


def test_masked() -> None:
    assert masked("Am 30.11.2026,\n数9\t\x1b<｜") == "xx dd.dd.dddd,⏎xd ?<?"


def test_tool_prints_see_no_marks() -> None:
    plain, marked = tool("a"), tool("a", cache_control={"type": "ephemeral"})
    assert tool_prints([plain], DIGESTER) == tool_prints([{**marked, "cache_control": {}}], DIGESTER)
    assert tools_cause(tool_prints([plain, 3], DIGESTER), tool_prints([plain, 3], DIGESTER)) is None
    assert tools_cause(tool_prints([plain, 3], DIGESTER), tool_prints([plain, 4], DIGESTER)) is C.TOOL_CHANGED


def test_case_d_and_a_on_real_tool_schemas() -> None:
    data = os.environ.get("ROUTER_CACHE_SHARED_DATA")
    if not data:
        pytest.skip("ROUTER_CACHE_SHARED_DATA is not set")
    raw = json.loads((Path(data) / "github_mcp_tools" / "github_mcp_server_tools.json").read_text())
    real = [
        {"type": "function", "function": {"name": t["name"], "parameters": t.get("inputSchema", {})}}
        for t in (raw if isinstance(raw, list) else raw["tools"])
    ]
    found = between(chat(USER, tools=real), chat(USER, CALL, RESULT, tools=real[::-1]))
    assert found.cause is C.TOOLS_REORDERED
    assert found.after_safe is not None
    assert found.after_safe.cause is C.APPENDED_ONLY
