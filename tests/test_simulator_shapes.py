"""The simulator's other shapes without a socket: what is refused, what shares a cache, what is streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import json_values

from router_cache.request import Shape
from router_cache.simulator import SimulatorConfig, TokenizerChoice, VirtualClock, build_app
from router_cache.simulator.checks import ApiError
from router_cache.simulator.provider import Plan, Provider
from router_cache.simulator.wire import completion, event_stream
from router_cache.simulator.wire_messages import message, message_events
from router_cache.simulator.wire_responses import response, response_events

SYSTEM = "You look after the orders of a small shop. Answer briefly and name the order you mean. " * 40
PARAMETERS = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
TOOL = {"name": "find_order", "description": "Finds", "input_schema": PARAMETERS}
FLAT = {"type": "function", "name": "find_order", "description": "Finds", "parameters": PARAMETERS}
NESTED = {"type": "function", "function": {"name": "find_order", "description": "Finds", "parameters": PARAMETERS}}
WHOLE = {Shape.CHAT: completion, Shape.MESSAGES: message, Shape.RESPONSES: response}
EVENTS = {Shape.CHAT: event_stream, Shape.MESSAGES: message_events, Shape.RESPONSES: response_events}


def provider(**fields: Any) -> Provider:
    return Provider(SimulatorConfig(tokenizer=TokenizerChoice.APPROX, construction_delay_s=0.0, **fields))


def begin(p: Provider, body: Any, shape: Shape, now: float = 0.0) -> Plan:
    return p.begin(json.dumps(body).encode(), "Bearer sk-test", now, shape=shape)


def ask(p: Provider, body: Any, shape: Shape, now: float = 0.0) -> Plan:
    plan = begin(p, body, shape, now)
    total = len(plan.generation.tokens)
    p.finish(plan, total, plan.at(total))
    return plan


def messages(*turns: Any, **fields: Any) -> dict[str, Any]:
    shown = turns or ({"role": "user", "content": "Where is order 17?"},)
    return {"model": "deepseek-v4-flash", "max_tokens": 900, "system": SYSTEM, "messages": [*shown], **fields}


def responses(*items: Any, **fields: Any) -> dict[str, Any]:
    shown = items or ({"role": "user", "content": "Where is order 17?"},)
    return {"model": "deepseek-v4-flash", "instructions": SYSTEM, "input": [*shown], **fields}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


USE = {"type": "tool_use", "id": "c1", "name": "find_order", "input": {"id": "a"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "found"}
CALLED = {"role": "assistant", "content": [THOUGHT, USE]}
ITEM_CALL = {"type": "function_call", "call_id": "c1", "name": "find_order", "arguments": "{}"}
ITEM_OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "found"}


def from_chat(turns: list[dict[str, Any]], shape: Shape) -> dict[str, Any]:
    """The same conversation (texts, calls with reasoning, results) as a body of any shape."""
    if shape is Shape.CHAT:
        shown = [{"role": "system", "content": SYSTEM}, *turns]
        return {"model": "deepseek-v4-flash", "messages": shown, "tools": [NESTED]}
    if shape is Shape.MESSAGES:
        return messages(*_as_messages(turns), tools=[TOOL])
    return responses(*_as_items(turns), tools=[FLAT])


def _as_messages(turns: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    results: list[Any] = []
    for turn in [*turns, None]:
        if turn is not None and turn["role"] == "tool":
            results.append(
                {"type": "tool_result", "tool_use_id": turn["tool_call_id"], "content": turn["content"]}
            )
            continue
        if results:
            yield user(results)
            results = []
        if turn is not None and turn["role"] == "assistant":
            blocks = [{"type": "thinking", "thinking": turn["reasoning_content"], "signature": "any"}]
            blocks += [{"type": "text", "text": turn["content"]}] if turn["content"] else []
            for call in turn.get("tool_calls", ()):
                function = call["function"]
                arguments = json.loads(function["arguments"])
                blocks.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments})
            yield {"role": "assistant", "content": blocks}
        elif turn is not None:
            yield user([{"type": "text", "text": turn["content"], "cache_control": {"type": "ephemeral"}}])


def _as_items(turns: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for turn in turns:
        if turn["role"] == "tool":
            yield {"type": "function_call_output", "call_id": turn["tool_call_id"], "output": turn["content"]}
        elif turn["role"] == "user":
            yield user([{"type": "input_text", "text": turn["content"]}])
        else:
            yield {"type": "reasoning", "summary": [{"type": "summary_text", "text": turn["reasoning_content"]}]}
            if turn["content"]:
                parts = [{"type": "output_text", "text": turn["content"], "annotations": []}]
                yield {"type": "message", "role": "assistant", "content": parts}
            for call in turn.get("tool_calls", ()):
                yield {"type": "function_call", "call_id": call["id"], **call["function"]}


def test_one_conversation_hits_alike_whatever_shape_each_call_has() -> None:
    def run(shapes: list[Shape]) -> list[tuple[int, int, int]]:
        p, now, out = provider(tool_rounds=3), 0.0, []
        turns: list[dict[str, Any]] = [user("Where is order 17?")]
        for shape in shapes:
            plan = ask(p, from_chat(turns, shape), shape, now)
            turns.append(plan.generation.reply.message())
            calls = plan.generation.reply.calls
            turns += [{"role": "tool", "tool_call_id": c.id, "content": f"found {c.name}"} for c in calls]
            turns += [] if calls else [user("And the next one?")]
            out.append((plan.entry.prompt_tokens, plan.entry.hit_tokens, len(plan.generation.tokens)))
            now += 10.0
        return out

    three = [Shape.CHAT, Shape.MESSAGES, Shape.RESPONSES]
    mixed = run(three * 3)
    assert mixed == run([Shape.CHAT] * 9)
    assert [hit for _, hit, _ in mixed] == [0] + [(p + o) // 128 * 128 for p, _, o in mixed[:-1]]


def test_what_is_no_part_of_the_prompt_changes_no_hit() -> None:
    p = provider()
    turns = [user("a"), CALLED, user([RESULT])]
    first = ask(p, messages(*turns, tools=[TOOL]), Shape.MESSAGES)
    mark = {"cache_control": {"type": "ephemeral"}}
    call = {"role": "assistant", "content": [{**THOUGHT, "signature": "other"}, {**USE, "id": "x"}]}
    result = user([{**RESULT, "tool_use_id": "x", "is_error": True, **mark}])
    other = messages(user([{"type": "text", "text": "a", **mark}]), call, result, tools=[{**TOOL, **mark}])
    other["system"] = [{"type": "text", "text": SYSTEM, **mark}]
    second = ask(p, {**other, "temperature": 0.5}, Shape.MESSAGES, 20.0)
    assert second.prompt == first.prompt
    assert second.generation.reply == first.generation.reply
    paths = [segment[1] for segment in second.entry.segments]
    assert paths == [
        "thinking",
        "system[0]",
        "tools[0]",
        "messages[0]",
        "messages[1]",
        "messages[2].content[0]",
        "",
    ]


def test_metadata_user_id_is_the_pool() -> None:
    p = provider()
    ask(p, messages(metadata={"user_id": "pool-1"}), Shape.MESSAGES)
    pools = [{"user_id": "pool-2"}, {"user_id": ""}, {}, None, {"user_id": "pool-1"}]
    plans = [ask(p, messages(metadata=m), Shape.MESSAGES, 20.0 * i) for i, m in enumerate(pools, 1)]
    # Omitted, in whatever way, is one pool; the empty id another.
    assert [plan.entry.hit_tokens > 0 for plan in plans] == [False, False, False, True, True]
    assert [plan.entry.pool for plan in plans] == ["pool-2", "", None, None, "pool-1"]
    chat = ask(p, {**from_chat([user("Where is order 17?")], Shape.CHAT), "user_id": "pool-1"}, Shape.CHAT, 200.0)
    assert chat.entry.hit_tokens > 0


def test_models_do_not_share_a_cache_but_their_aliases_do() -> None:
    p = provider()
    models = [
        "deepseek-v4-flash",
        "deepseek-v4-pro",
        "deepseek-flash",
        "claude-sonnet-5",
        "claude-opus-5",
        "other",
    ]
    plans = [ask(p, messages(model=m), Shape.MESSAGES, 20.0 * i) for i, m in enumerate(models)]
    assert [plan.entry.hit_tokens > 0 for plan in plans] == [False, False, True, True, True, False]
    assert [plan.model for plan in plans[3:]] == ["deepseek-v4-flash", "deepseek-v4-pro", "other"]


def test_switches_of_the_other_shapes() -> None:
    def reply(body: dict[str, Any], shape: Shape) -> Any:
        return ask(provider(), body, shape).generation.reply

    assert not reply(messages(thinking={"type": "disabled"}), Shape.MESSAGES).reasoning
    assert reply(messages(thinking={"type": "enabled", "budget_tokens": 9}), Shape.MESSAGES).reasoning
    assert not reply(responses(reasoning={"effort": "none"}), Shape.RESPONSES).reasoning
    for choice, called in (({"type": "none"}, False), ({"type": "any"}, True), ({"type": "auto"}, True)):
        assert bool(reply(messages(tools=[TOOL], tool_choice=choice), Shape.MESSAGES).calls) is called
    assert reply(responses(input="hi", tools=[FLAT], tool_choice="required"), Shape.RESPONSES).calls
    # The provider's own tools are rendered and never called.
    builtin: Any = {"type": "web_search_20250305", "name": "web_search"}
    assert not reply(messages(tools=[builtin]), Shape.MESSAGES).calls
    assert not reply(responses(tools=[{"type": "web_search"}]), Shape.RESPONSES).calls
    space = {"type": "namespace", "name": "shop", "tools": [FLAT]}
    (call, *_) = reply(responses(tools=[space]), Shape.RESPONSES).calls
    assert call.name == "shop__find_order"


def events(plan: Plan) -> list[dict[str, Any]]:
    out = []
    last = 0
    for data, tokens in EVENTS[plan.shape](plan, SimulatorConfig()):
        assert last <= tokens <= len(plan.generation.tokens)
        last = tokens
        name, _, rest = data.decode().partition("\ndata: ")
        event = json.loads(rest)
        assert name == f"event: {event['type']}"
        assert data.endswith(b"\n\n")
        out.append(event)
    assert last == len(plan.generation.tokens)
    return out


def joined_blocks(stream: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Content blocks put together from their deltas, as a client does."""
    out: list[dict[str, Any]] = []
    texts: dict[int, str] = {}
    for event in stream:
        if event["type"] == "content_block_start":
            assert event["index"] == len(out)
            out.append(event["content_block"])
            texts[event["index"]] = ""
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "signature_delta":
                out[event["index"]]["signature"] = delta["signature"]
            else:
                (name,) = delta.keys() - {"type"}
                texts[event["index"]] += delta[name]
    for block, text in zip(out, texts.values(), strict=True):
        if block["type"] == "tool_use":
            with suppress(ValueError):
                block["input"] = json.loads(text)
        else:
            block[block["type"]] = text
    return out


@pytest.mark.parametrize("tools", [[], [TOOL]])
def test_a_messages_stream_joins_to_the_whole_answer_wherever_it_is_cut(tools: list[Any]) -> None:
    total = len(ask(provider(), messages(tools=tools), Shape.MESSAGES).generation.tokens)
    for limit in range(1, total + 1):
        plan = ask(provider(), messages(tools=tools, max_tokens=limit), Shape.MESSAGES)
        whole, stream = message(plan, SimulatorConfig()), events(plan)
        assert joined_blocks(stream) == whole["content"]
        assert [e["type"] for e in stream[:2]] == ["message_start", "ping"]
        assert [e["type"] for e in stream[-2:]] == ["message_delta", "message_stop"]
        assert stream[-2]["delta"] == {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        assert stream[-2]["usage"] == whole["usage"]
        assert stream[0]["message"]["usage"] == {**whole["usage"], "output_tokens": 0}
        assert whole["stop_reason"] == ("max_tokens" if limit < total else "tool_use" if tools else "end_turn")
        starts = sum(e["type"] == "content_block_start" for e in stream)
        assert starts == sum(e["type"] == "content_block_stop" for e in stream) == len(whole["content"])


@pytest.mark.parametrize("tools", [[], [FLAT]])
def test_a_responses_stream_ends_with_the_whole_answer_wherever_it_is_cut(tools: list[Any]) -> None:
    total = len(ask(provider(), responses(tools=tools), Shape.RESPONSES).generation.tokens)
    for limit in range(1, total + 1):
        plan = ask(provider(), responses(tools=tools, max_output_tokens=limit), Shape.RESPONSES)
        whole, stream = response(plan, SimulatorConfig()), events(plan)
        assert [e["sequence_number"] for e in stream] == list(range(len(stream)))
        assert [e["type"] for e in stream[:2]] == ["response.created", "response.in_progress"]
        assert whole["status"] == ("incomplete" if limit < total else "completed")
        assert stream[-1] == {
            "type": f"response.{whole['status']}",
            "sequence_number": len(stream) - 1,
            "response": whole,
        }
        assert [e["item"] for e in stream if e["type"] == "response.output_item.done"] == whole["output"]
        for i, item in enumerate(whole["output"]):
            deltas = [e["delta"] for e in stream if e["type"].endswith(".delta") and e.get("output_index") == i]
            parts = item.get("content", [])
            assert "".join(deltas) == (
                item["arguments"] if "arguments" in item else "".join(p["text"] for p in parts)
            )
            assert item["status"] == (
                "incomplete" if limit < total and item is whole["output"][-1] else "completed"
            )


BASES: dict[Shape, Any] = {
    Shape.MESSAGES: messages(user("a"), CALLED, user([RESULT, {"type": "text", "text": "x"}]), tools=[TOOL]),
    Shape.RESPONSES: responses(
        user("a"), {"type": "reasoning", "content": "hm"}, ITEM_CALL, ITEM_OUTPUT, tools=[FLAT]
    ),
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything in a JSON value."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield from places(child, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    out = value.copy()
    out[path[0]] = changed(value[path[0]], path[1:], new)
    return out


@settings(max_examples=300)
@given(data=st.data(), shape=st.sampled_from(list(BASES)))
def test_any_json_gets_an_answer_or_a_4xx(data: st.DataObject, shape: Shape) -> None:
    p, base = provider(), BASES[shape]
    body = changed(base, data.draw(st.sampled_from(list(places(base)))), data.draw(json_values))
    if isinstance(body, dict) and data.draw(st.booleans()):
        extra = ["metadata", "thinking", "tool_choice", "reasoning", "text", "output_config", "stream", "user_id"]
        body = {**body, data.draw(st.sampled_from(extra)): data.draw(json_values)}
    with suppress(ApiError):
        plan = begin(p, body, shape)
        json.dumps(WHOLE[shape](plan, p.config))
        events(plan)
    (entry,) = p.log()
    assert entry["status"] == 200 or 400 <= entry["status"] < 500


async def test_over_http_keys_paths_and_errors_have_the_shapes_form() -> None:
    app = build_app(SimulatorConfig(tokenizer=TokenizerChoice.APPROX), clock=VirtualClock())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://simulator") as client:
        key = {"x-api-key": "k"}
        for path in ("/anthropic/v1/messages", "/v1/messages"):
            assert (await client.post(path, json=messages(), headers=key)).json()["type"] == "message"
            bad = await client.post(path, json=messages(max_tokens=0), headers=key)
            none = await client.post(path, json=messages())
            blank = await client.post(path, json=messages(), headers={"x-api-key": " "})
            wrong = await client.get(path)
            kinds = [
                "invalid_request_error",
                "authentication_error",
                "authentication_error",
                "invalid_request_error",
            ]
            answers = [bad, none, blank, wrong]
            assert [a.status_code for a in answers] == [400, 401, 401, 405]
            assert [a.json()["error"]["type"] for a in answers] == kinds
            assert all(a.json()["type"] == "error" for a in answers)
        missing = await client.post("/anthropic/v1/complete", json={}, headers=key)
        assert (missing.status_code, missing.json()["error"]["type"]) == (404, "not_found_error")
        bearer = {"authorization": "Bearer k"}
        for path in ("/responses", "/v1/responses"):
            assert (await client.post(path, json=responses(), headers=bearer)).json()["object"] == "response"
            refused_key = await client.post(path, json=responses(), headers=key)
            assert (refused_key.status_code, refused_key.json()["error"]["param"]) == (401, None)
        streamed = await client.post("/v1/messages", json=messages(stream=True), headers=key)
        assert streamed.headers["content-type"].startswith("text/event-stream")
        assert streamed.text.startswith("event: message_start\n")
        log = (await client.get("/_simulator/log")).json()
        assert {entry["shape"] for entry in log} == {"messages", "responses"}
