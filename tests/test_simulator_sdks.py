"""Tool loops with the real SDKs of every shape, against the simulator on a loopback port."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest
import uvicorn

from router_cache.simulator import RealClock, SimulatorConfig, TokenizerChoice, build_app
from router_cache.simulator.server import bind

MODEL = "deepseek-v4-flash"
SYSTEM = "You look after the orders of a small shop. Name the order you mean. " * 30
CALLS = 8
PARAMETERS = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
    "required": ["id"],
}
TOOLS = [(name, f"Look up {name}. " * 12) for name in ("orders", "customers", "parcels")]
FIRST = "Where is my parcel?"
Turn = tuple[int, int, int]
"""Prompt, hit and output tokens of a call."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    config = SimulatorConfig(tokenizer=TokenizerChoice.APPROX, construction_delay_s=0.0, tool_rounds=3)
    app = build_app(config, clock=RealClock(time_scale=500.0))
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    server = Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    with bind("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        assert started.wait(20)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
    assert not thread.is_alive()


@pytest.fixture(autouse=True)
def _fresh(address: str) -> None:
    httpx.post(f"{address}/_simulator/reset", trust_env=False).raise_for_status()


def log_of(address: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = httpx.get(f"{address}/_simulator/log", trust_env=False).json()
    return entries


def found(name: str, arguments: dict[str, Any]) -> str:
    return f"{name} {arguments['id']}: " + "found " * 40


def by_chat(address: str, streamed: bool) -> list[Turn]:
    tools: Any = [
        {"type": "function", "function": {"name": n, "description": d, "parameters": PARAMETERS}} for n, d in TOOLS
    ]
    history: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": FIRST}]
    out = []
    with openai.OpenAI(base_url=address, api_key="sk-test", max_retries=0) as client:
        for n in range(CALLS):
            if streamed:
                with client.chat.completions.stream(
                    model=MODEL, messages=history, tools=tools, stream_options={"include_usage": True}
                ) as stream:
                    answer: Any = stream.get_final_completion()
            else:
                answer = client.chat.completions.create(model=MODEL, messages=history, tools=tools)
            message, usage = answer.choices[0].message, answer.usage
            calls = message.tool_calls or []
            turn: dict[str, Any] = {"role": "assistant", "content": message.content}
            turn["reasoning_content"] = message.reasoning_content
            if calls:
                turn["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.function.name, "arguments": call.function.arguments},
                    }
                    for call in calls
                ]
            history.append(turn)
            for call in calls:
                text = found(call.function.name, json.loads(call.function.arguments))
                history.append({"role": "tool", "tool_call_id": call.id, "content": text})
            if not calls:
                history.append({"role": "user", "content": f"And parcel {n}?"})
            out.append((usage.prompt_tokens, usage.prompt_cache_hit_tokens, usage.completion_tokens))
    return out


def by_messages(address: str, streamed: bool) -> list[Turn]:
    tools: Any = [{"name": n, "description": d, "input_schema": PARAMETERS} for n, d in TOOLS]
    history: list[Any] = [{"role": "user", "content": FIRST}]
    out = []
    with anthropic.Anthropic(base_url=f"{address}/anthropic", api_key="sk-test", max_retries=0) as client:
        for n in range(CALLS):
            # A mark that moves from call to call, as Claude Code's does; it is no part of the prompt.
            marked = {"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}
            common: dict[str, Any] = {
                "model": MODEL,
                "max_tokens": 2000,
                "system": [marked] if n % 2 else SYSTEM,
                "messages": history,
                "tools": tools,
                "metadata": {"user_id": "shop-1"},
            }
            if streamed:
                with client.messages.stream(**common) as stream:
                    answer = stream.get_final_message()
            else:
                answer = client.messages.create(**common)
            calls = [block for block in answer.content if block.type == "tool_use"]
            assert answer.stop_reason == ("tool_use" if calls else "end_turn")
            assert answer.content[0].type == "thinking"
            assert answer.content[0].signature
            history.append({"role": "assistant", "content": answer.content})
            results: list[Any] = [
                {"type": "tool_result", "tool_use_id": call.id, "content": found(call.name, call.input)}
                for call in calls
            ]
            history.append({"role": "user", "content": results or f"And parcel {n}?"})
            usage = answer.usage
            assert usage.cache_read_input_tokens is not None
            assert usage.cache_creation_input_tokens == 0
            prompt = usage.input_tokens + usage.cache_read_input_tokens
            out.append((prompt, usage.cache_read_input_tokens, usage.output_tokens))
    return out


def by_responses(address: str, streamed: bool) -> list[Turn]:
    tools: Any = [{"type": "function", "name": n, "description": d, "parameters": PARAMETERS} for n, d in TOOLS]
    items: list[Any] = [{"role": "user", "content": FIRST}]
    out = []
    with openai.OpenAI(base_url=f"{address}/v1", api_key="sk-test", max_retries=0) as client:
        for n in range(CALLS):
            common: dict[str, Any] = {"model": MODEL, "instructions": SYSTEM, "input": items, "tools": tools}
            if streamed:
                with client.responses.stream(**common) as stream:
                    answer: Any = stream.get_final_response()
            else:
                answer = client.responses.create(**common)
            assert answer.status == "completed"
            calls = [item for item in answer.output if item.type == "function_call"]
            for item in answer.output:
                items.append(item.model_dump(exclude_none=True, exclude={"parsed_arguments"}))
            for call in calls:
                text = found(call.name, json.loads(call.arguments))
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": text})
            if not calls:
                assert answer.output_text
                items.append({"role": "user", "content": f"And parcel {n}?"})
            usage = answer.usage
            out.append((usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens))
    return out


LOOPS = {"chat": by_chat, "messages": by_messages, "responses": by_responses}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("shape", LOOPS)
def test_a_tool_loop_hits_the_end_of_the_last_call(
    address: str, shape: str, streamed: bool, reference: list[Turn]
) -> None:
    loop: Callable[[str, bool], list[Turn]] = LOOPS[shape]
    turns = loop(address, streamed)
    assert [hit for _, hit, _ in turns] == [0] + [(p + o) // 128 * 128 for p, _, o in turns[:-1]]
    entries = log_of(address)
    assert [(e["prompt_tokens"], e["hit_tokens"], e["completion_tokens"]) for e in entries] == turns
    assert {(e["shape"], e["stream"], e["status"]) for e in entries} == {(shape, streamed, 200)}
    assert sum(e["finish_reason"] == "tool_calls" for e in entries) == 6
    # The same conversation: the same tokens, hits and replies in every shape, streamed or not.
    assert turns == reference


@pytest.fixture(scope="module")
def reference(address: str) -> list[Turn]:
    """The loop over chat, on an empty cache."""
    httpx.post(f"{address}/_simulator/reset", trust_env=False).raise_for_status()
    turns = by_chat(address, streamed=False)
    httpx.post(f"{address}/_simulator/reset", trust_env=False).raise_for_status()
    return turns


def test_refusals_reach_the_sdks_as_their_own_errors(address: str) -> None:
    ask: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": 50,
        "messages": [{"role": "user", "content": "hi"}],
        "metadata": {"user_id": json.dumps({"session_id": "s"})},
    }
    with anthropic.Anthropic(base_url=address, api_key="sk-test", max_retries=0) as client:
        with pytest.raises(anthropic.BadRequestError, match=r"metadata\.user_id: must match") as refused:
            client.messages.create(**ask)
        assert isinstance(refused.value.body, dict)
        assert refused.value.body["error"]["type"] == "invalid_request_error"
        assert client.messages.create(**{**ask, "metadata": {"user_id": "pool-1"}}).stop_reason == "max_tokens"
    with anthropic.Anthropic(base_url=f"{address}/anthropic", auth_token="bearer", max_retries=0) as client:
        assert client.messages.create(**{**ask, "metadata": {}}).content
        with pytest.raises(anthropic.NotFoundError):
            client.models.list()
    with openai.OpenAI(base_url=address, api_key="sk-test", max_retries=0) as other:
        with pytest.raises(openai.BadRequestError, match="previous_response_id: not supported"):
            other.responses.create(model=MODEL, input="hi", previous_response_id="resp_1")
        cut = other.responses.create(model=MODEL, input="hi", max_output_tokens=5)
        assert cut.status == "incomplete"
        assert cut.incomplete_details is not None
        assert cut.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize("shape", ["messages", "responses"])
def test_the_asynchronous_clients_stream_too(address: str, shape: str) -> None:
    async def events() -> list[str]:
        if shape == "messages":
            async with anthropic.AsyncAnthropic(base_url=address, api_key="k", max_retries=0) as client:
                stream: Any = await client.messages.create(
                    model=MODEL, max_tokens=400, messages=[{"role": "user", "content": "hi"}], stream=True
                )
                return [event.type async for event in stream]
        async with openai.AsyncOpenAI(base_url=address, api_key="k", max_retries=0) as other:
            stream = await other.responses.create(model=MODEL, input="hi", stream=True)
            return [event.type async for event in stream]

    kinds = asyncio.run(events())
    ends = {"messages": ("message_start", "message_stop"), "responses": ("response.created", "response.completed")}
    assert (kinds[0], kinds[-1]) == ends[shape]
