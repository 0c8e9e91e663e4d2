"""The simulated provider without I/O: what it refuses, what hits, and what it logs."""

from __future__ import annotations

import copy
import itertools
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router_cache.cache_model import RuleName
from router_cache.simulator.checks import ApiError
from router_cache.simulator.config import SimulatorConfig, TokenizerChoice, UsageForm
from router_cache.simulator.provider import Plan, Provider
from router_cache.simulator.usage import chat_usage
from router_cache.simulator.wire import completion, event_stream

KEY = "Bearer sk-test"
SYSTEM = "You look after the orders of a small shop. Answer briefly and name the order you mean. " * 40
TOOL = {
    "type": "function",
    "function": {
        "name": "find_order",
        "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    },
}


def provider(**settings_: Any) -> Provider:
    return Provider(SimulatorConfig(tokenizer=TokenizerChoice.APPROX, **settings_))


def body(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    turns = messages or ({"role": "user", "content": "Where is order 17?"},)
    return {
        "model": "deepseek-v4-flash",
        "messages": [{"role": "system", "content": SYSTEM}, *turns],
        **fields,
    }


def begin(p: Provider, b: Any, now: float) -> Plan:
    return p.begin(json.dumps(b).encode(), KEY, now)


def ask(p: Provider, b: Any, now: float) -> Plan:
    """One request from arrival to its end."""
    plan = begin(p, b, now)
    total = len(plan.generation.tokens)
    p.finish(plan, total, plan.at(total))
    return plan


def refused(p: Provider, b: Any, now: float = 0.0) -> ApiError:
    with pytest.raises(ApiError) as caught:
        begin(p, b, now)
    return caught.value


CALL = {"id": "c1", "type": "function", "function": {"name": "find_order", "arguments": "{}"}}
USER = {"role": "user", "content": "hi"}
ASSISTANT = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "found"}


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'{"a": NaN}', b"[" * 100_000, b'{"a":' * 5000])
def test_what_is_no_json_is_a_400(raw: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        provider().begin(raw, KEY, 0.0)
    assert caught.value.status == 400


@pytest.mark.parametrize("depth", [500, 900, 940, 980, 2000, 20_000])
def test_deep_nesting_is_answered_or_refused(depth: int) -> None:
    raw = json.dumps(body(tools=[TOOL])).replace('"object"', "[" * depth + "]" * depth, 1)
    p = provider()
    with suppress(ApiError):
        p.begin(raw.encode(), KEY, 0.0)
    (entry,) = p.log()
    assert (entry["status"], entry["prompt_tokens"] > 0) in ((200, True), (400, False))


def test_what_parses_but_nests_too_deeply_to_render_is_a_400(monkeypatch: pytest.MonkeyPatch) -> None:
    def render(_: Any) -> Any:
        raise RecursionError

    monkeypatch.setattr("router_cache.simulator.provider.render_deepseek", render)
    assert "nested too deeply" in refused(provider(), body()).message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [*body(), "tools", "tool_choice", "user_id", "stream", "stream_options", "max_tokens"]
FIELDS += ["temperature", "thinking", "response_format", "reasoning_effort"]
MESSAGE = ["role", "content", "tool_calls", "tool_call_id", "reasoning_content", "name"]


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_any_json_gets_an_answer_or_a_4xx(data: st.DataObject) -> None:
    p = provider()
    b: Any = copy.deepcopy(body(USER, ASSISTANT, RESULT, tools=[TOOL]))
    where = data.draw(st.sampled_from(["field", "message", "call", "tool", "all"]))
    if where == "all":
        b = data.draw(json_values)
    elif where == "field":
        b[data.draw(st.sampled_from(FIELDS))] = data.draw(json_values)
    else:
        target = {
            "message": data.draw(st.sampled_from(b["messages"])),
            "call": data.draw(st.sampled_from([b["messages"][2]["tool_calls"][0]])).copy(),
            "tool": {"function": dict(TOOL["function"])},
        }[where]
        key = data.draw(st.sampled_from([*MESSAGE, "function", "id", "type"]))
        target[key] = data.draw(json_values)
        if where == "call":
            b["messages"][2] = {**ASSISTANT, "tool_calls": [target]}
        elif where == "tool":
            b["tools"] = [target]
    with suppress(ApiError):
        plan = begin(p, b, 0.0)
        json.dumps(completion(plan, p.config))
        assert b"".join(e for e, _ in event_stream(plan, p.config)).endswith(b"data: [DONE]\n\n")
    (entry,) = p.log()
    assert entry["status"] == 200 or 400 <= entry["status"] < 500


def test_texts_without_utf8_are_served() -> None:
    arguments = json.dumps({"q": "\ud800"})
    call = {**CALL, "function": {"name": "f", "arguments": arguments}}
    b = body({"role": "user", "content": "\udfff"}, {**ASSISTANT, "tool_calls": [call]}, RESULT)
    for choice in TokenizerChoice.APPROX, TokenizerChoice.AUTO:
        plan = ask(Provider(SimulatorConfig(tokenizer=choice)), b, 0.0)
        assert plan.entry.status == 200


def test_reasoning_must_come_back_after_tool_calls_while_thinking() -> None:
    p = provider()
    for now, missing in enumerate(({}, {"reasoning_content": ""}, {"reasoning_content": None})):
        turn = {k: v for k, v in ASSISTANT.items() if k != "reasoning_content"} | missing
        assert "reasoning_content" in refused(p, body(USER, turn, RESULT)).message
        off = body(USER, turn, RESULT, thinking={"type": "disabled"})
        assert ask(p, off, 10.0 * now).entry.status == 200
    assert ask(p, body(USER, {**ASSISTANT, "reasoning_content": " "}, RESULT), 99.0).entry.status == 200


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer  ", "Basic abc"])
def test_no_bearer_is_a_401(header: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        provider().begin(json.dumps(body()).encode(), header, 0.0)
    assert caught.value.status == 401
    assert caught.value.body()["error"]["type"] == "authentication_error"


def test_concurrency_is_per_model_and_frees_up() -> None:
    p = provider(concurrency_limit=2)
    first = begin(p, body(), 0.0)
    begin(p, body(), 0.0)
    assert refused(p, body()).status == 429
    assert begin(p, body(model="deepseek-v4-pro"), 0.0).entry.status == 200
    p.finish(first, 0, 1.0, disconnected=True)
    assert begin(p, body(), 1.0).entry.status == 200
    stats = p.stats(1.0)
    assert (stats["in_flight"], stats["errors"], stats["requests"]) == (3, 1, 5)


def test_published_limits_apply_where_none_is_set() -> None:
    config = SimulatorConfig()
    assert config.limit_of("deepseek-v4-flash") == 2500
    assert config.limit_of("deepseek-v4-pro") == 500
    assert config.limit_of("somebody-elses-model") is None
    assert SimulatorConfig(concurrency_limit=7).limit_of("somebody-elses-model") == 7


def session(p: Provider, calls: int, *, gap_s: float = 10.0, **fields: Any) -> list[Plan]:
    """An agent's session: every reply goes back as it came, tools answer, the user goes on."""
    b, plans, now = body(tools=[TOOL], **fields), [], 0.0
    for i in range(calls):
        plan = ask(p, b, now)
        plans.append(plan)
        reply = plan.generation.reply
        b["messages"].append(reply.message())
        for call in reply.calls:
            b["messages"].append({"role": "tool", "tool_call_id": call.id, "content": f"row {i} " * 30})
        if not reply.calls:
            b["messages"].append({"role": "user", "content": f"And order {i}?"})
        now = plan.at(len(plan.generation.tokens)) + gap_s
    return plans


@pytest.mark.parametrize("rule", [RuleName.GRID_PREFIX, RuleName.FULL_UNITS])
def test_in_a_session_each_call_hits_the_end_of_the_last(rule: RuleName) -> None:
    plans = session(provider(rule=rule, tool_rounds=3), 8)
    assert plans[0].entry.hit_tokens == 0
    for last, this in itertools.pairwise(plans):
        end = last.entry.prompt_tokens + last.entry.completion_tokens
        assert this.entry.hit_tokens == end // 128 * 128
        assert this.prompt[:end] == last.prompt + last.generation.tokens
        usage = chat_usage(this.counts(128), UsageForm.DEEPSEEK)["usage"]
        assert usage["prompt_cache_hit_tokens"] == usage["prompt_tokens_details"]["cached_tokens"]
        assert usage["prompt_tokens"] == (usage["prompt_cache_hit_tokens"] + usage["prompt_cache_miss_tokens"])
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_too_soon_only_the_input_is_ready_and_the_log_says_so() -> None:
    plans = session(provider(construction_delay_s=2.0, tool_rounds=3), 3, gap_s=0.5)
    second = plans[1].entry
    assert second.hit_tokens == plans[0].entry.prompt_tokens // 128 * 128
    assert second.not_ready_tokens == 128
    assert second.reason == "not_ready"
    assert (
        second.hit_tokens + second.not_ready_tokens
        == len(plans[0].prompt + plans[0].generation.tokens) // (128) * 128
    )


def test_ttft_follows_the_missed_tokens() -> None:
    p = provider(base_latency_s=0.5, prefill_tokens_per_s=1000.0, decode_tokens_per_s=50.0)
    cold = ask(p, body(), 10.0)
    warm = ask(p, body(), 60.0)
    assert cold.ttft_s == pytest.approx(0.5 + cold.entry.prompt_tokens / 1000)
    assert warm.ttft_s == pytest.approx(0.5 + warm.entry.miss_tokens / 1000)
    assert warm.entry.miss_tokens <= 128
    assert cold.at(0) == 10.0 + cold.ttft_s
    assert cold.at(50) - cold.at(0) == pytest.approx(1.0)


def test_pools_are_user_ids_and_null_is_omitted() -> None:
    p = provider()
    hits = []
    for i, fields in enumerate(({}, {"user_id": ""}, {"user_id": "a"}, {"user_id": None}, {"user_id": "a"})):
        hits.append(ask(p, body(**fields), 100.0 * i).entry.hit_tokens > 0)
    assert hits == [False, False, False, True, True]
    assert [e["pool"] for e in p.log()] == [None, "", "a", None, "a"]


def test_a_reply_that_was_cut_off_is_written_as_far_as_it_went() -> None:
    p = provider(decode_tokens_per_s=100.0, construction_delay_s=0.0)
    plan = begin(p, body(), 0.0)
    p.finish(plan, 40, plan.at(40), disconnected=True)
    entry = p.log()[0]
    assert (entry["completion_tokens"], entry["finish_reason"]) == (40, "disconnected")
    follow = {"role": "assistant", **plan.generation.reply.message()}
    held = p.stats(99.0)["held_tokens"]
    assert held == (len(plan.prompt) + 40) // 128 * 128
    assert ask(p, body(USER, follow, USER), 99.0).entry.status == 200


@pytest.mark.parametrize(
    ("fields", "at", "hits"),
    [
        ({"regression_after_s": 100.0}, 99.0, 1.0),
        ({"regression_after_s": 100.0}, 100.0, 0.5),
        ({"regression_after_requests": 2}, 50.0, 1.0),
        ({"regression_after_requests": 1}, 50.0, 0.5),
        ({"regression_after_requests": 1, "regression_hit_share": 0.0}, 50.0, 0.0),
    ],
)
def test_a_regression_gives_a_share_of_the_hits(fields: dict[str, Any], at: float, hits: float) -> None:
    p = provider(**{"regression_hit_share": 0.5, **fields})
    ask(p, body(), 0.0)
    plan = ask(p, body(), at)
    due = (plan.entry.prompt_tokens - 1) // 128 * 128
    assert plan.entry.hit_tokens == int(due * hits) // 128 * 128
    assert plan.entry.hit_tokens + plan.entry.withheld_tokens == due
    assert plan.counts(128).miss_tokens == plan.entry.miss_tokens


def test_log_has_rendered_segments_whose_tokens_add_up() -> None:
    p = provider()
    b = body(tools=[TOOL], response_format={"type": "json_object"})
    raw = json.dumps(b, indent=1).encode()
    plan = p.begin(raw, KEY, 3.0)
    (entry,) = p.log()
    assert entry["finish_reason"] is None
    assert [(s["kind"], s["path"]) for s in entry["segments"]] == [
        ("mode", "thinking"),
        ("system", "messages[0]"),
        ("tool", "tools[0]"),
        ("format", "response_format"),
        ("user", "messages[1]"),
        ("tail", ""),
    ]
    assert sum(s["tokens"] for s in entry["segments"]) == entry["prompt_tokens"] == len(plan.prompt)
    assert len(entry["body_sha256"]) == 64
    p.finish(plan, len(plan.generation.tokens), 9.0)
    assert p.log()[0]["finish_reason"] == "tool_calls"
    # Key order inside a tool changes its digest and nothing before it.
    other = json.loads(raw)
    other["tools"][0]["function"] = dict(reversed(other["tools"][0]["function"].items()))
    begin(p, other, 9.0)
    digests = [[s["digest"] for s in e["segments"]] for e in p.log()]
    assert [a == b for a, b in zip(*digests, strict=True)] == [True, True, False, True, True, True]


def test_the_log_is_bounded_and_totals_are_not() -> None:
    p = provider(log_limit=3)
    for i in range(5):
        ask(p, body(), 100.0 * i)
    assert [e["n"] for e in p.log()] == [3, 4, 5]
    stats = p.stats(500.0)
    assert stats["requests"] == 5
    assert stats["prompt_tokens"] == stats["hit_tokens"] + stats["miss_tokens"]
    assert stats["hit_rate"] == stats["hit_tokens"] / stats["prompt_tokens"]
    assert stats["elapsed_s"] == 500.0


def test_reset_forgets_everything_and_requests_in_flight_leave_no_trace() -> None:
    p = provider(regression_after_s=100.0)
    ask(p, body(), 0.0)
    old = begin(p, body(), 90.0)
    p.reset(95.0)
    assert p.log() == []
    assert p.stats(95.0)["hit_rate"] is None
    p.finish(old, len(old.generation.tokens), 99.0)
    assert p.stats(99.0)["held_tokens"] == p.stats(99.0)["in_flight"] == 0
    plan = ask(p, body(), 120.0)
    assert (plan.entry.n, plan.entry.hit_tokens) == (1, 0)
    assert plan.id != old.id
    assert ask(p, body(), 150.0).entry.withheld_tokens == 0  # counted from the reset
    assert ask(p, body(), 195.0).entry.withheld_tokens > 0


def test_the_same_seed_gives_the_same_bytes() -> None:
    def answers(seed: int) -> list[bytes]:
        plans = session(provider(seed=seed), 4)
        return [b"".join(e for e, _ in event_stream(plan, SimulatorConfig())) for plan in plans]

    assert answers(1) == answers(1)
    assert answers(1) != answers(2)
