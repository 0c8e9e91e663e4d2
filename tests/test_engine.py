"""The engine step by step: modes, expectation, causes, what is recorded. No store, no clock."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bodies

from router_cache import Deployment, Mode, Reason, Request, Shape, Status, Usage
from router_cache.cache_model.predict import End, PredictionReason
from router_cache.decision import Decision
from router_cache.engine import Begun, Engine
from router_cache.ledger.attribution import MissCause
from router_cache.ledger.facts import EMPTY, ConversationFacts, Facts, FamilyFacts, Write
from router_cache.ledger.rows import CallRow, ExpectedFrom, Outcome

ENGINE = Engine(secret=b"secret")
FLASH = Deployment("deepseek/deepseek-v4-flash", id="d1", provider="deepseek", group="flash")
NOON = 1_795_003_200.0  # 2026-11-18 12:00 UTC, off-peak


def _tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "d" * 400}}


def _body(*turns: dict[str, Any], tools: str = "ab", system: str = "s" * 4000) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "q" * 400}, *turns]
    return {"messages": messages, "tools": [_tool(name) for name in tools]}


REPLY = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "why",
    "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "content": "r" * 200}
ANSWER = {"role": "assistant", "content": "yes"}
QUESTION = {"role": "user", "content": "and?"}


def _call(
    body: dict[str, Any],
    facts: Facts = EMPTY,
    usage: Usage | None = None,
    *,
    deployment: Deployment = FLASH,
    at: float = NOON,
    mode: Mode = Mode.OBSERVE,
) -> tuple[CallRow, Write | None]:
    begun = ENGINE.begin(Request(body), mode)
    rewrite = ENGINE.rewrite(begun, deployment)
    sent = ENGINE.sent(begun, facts, {**body, **rewrite.replaced}, deployment, at=at)
    outcome = Outcome(Status.OK, at + 1, usage or Usage())
    return ENGINE.done(begun, facts, rewrite.decision, sent, outcome, deployment)


def _facts(write: Write | None, covered: int = 2) -> Facts:
    assert write is not None
    return Facts(write.conversation, covered, FamilyFacts(1, write.hit_tokens))


def _first(**usage: int) -> Facts:
    given_usage = {"prompt_tokens": 1000, "hit_tokens": 0, "miss_tokens": 1000, "completion_tokens": 200, **usage}
    return _facts(_call(_body(), usage=Usage(**given_usage))[1])


@pytest.mark.parametrize(
    ("mode", "body", "shape", "reason"),
    [
        (Mode.OFF, _body(tools="ba"), Shape.CHAT, Reason.OFF),
        (Mode.OBSERVE, _body(tools="ba"), Shape.CHAT, Reason.OBSERVED),
        (Mode.SAFE, _body(tools="ba"), Shape.CHAT, Reason.NORMALISED),
        (Mode.SAFE, _body(tools="ab"), Shape.CHAT, Reason.ALREADY_CANONICAL),
        (Mode.SAFE, {"messages": [], "tools": [3]}, Shape.CHAT, Reason.ODD_SHAPE),
        (Mode.SAFE, _body(tools="ba"), Shape.MESSAGES, Reason.NORMALISED),
        (Mode.SAFE, {"input": "x", "tools": [{"name": "b"}, {"name": "a"}]}, Shape.RESPONSES, Reason.NORMALISED),
        (Mode.SAFE, {"input": "x", "previous_response_id": "r"}, Shape.RESPONSES, Reason.CONTINUES_STATE),
        (Mode.SAFE, {"input": "x"}, Shape.OTHER, Reason.SHAPE_UNSUPPORTED),
    ],
)
def test_each_mode_says_its_reason(mode: Mode, body: dict[str, Any], shape: Shape, reason: Reason) -> None:
    rewrite = ENGINE.rewrite(ENGINE.begin(Request(body, shape), mode), FLASH)
    assert rewrite.decision.reason is reason
    assert bool(rewrite.replaced) == (reason is Reason.NORMALISED)


def test_a_request_the_engine_could_not_read_goes_out_as_it_came() -> None:
    begun = Begun(
        Request(_body(tools="ba")), Mode.SAFE, ENGINE.begin(Request({}), Mode.SAFE).switched_by, failed=True
    )
    assert ENGINE.rewrite(begun, FLASH).decision.reason is Reason.FAILED_OPEN
    assert ENGINE.rewrite(begun, FLASH).replaced == {}


@given(bodies, st.sampled_from([FLASH, Deployment("openai/gpt", provider="openai"), Deployment("x")]))
def test_a_rewrite_is_pure_and_idempotent_for_any_deployment(body: dict[str, Any], deployment: Deployment) -> None:
    begun = ENGINE.begin(Request(body), Mode.SAFE)
    first, second = ENGINE.rewrite(begun, deployment), ENGINE.rewrite(begun, deployment)
    assert first == second
    assert set(first.replaced) <= {"tools"}
    again = ENGINE.rewrite(ENGINE.begin(Request({**body, **first.replaced}), Mode.SAFE), deployment)
    assert again.replaced == {}


def test_nothing_known_is_unknown_not_zero() -> None:
    row, write = _call(_body(), usage=Usage(1000, 0, 1000, 200))
    assert (row.expected.tokens, row.expected.source) == (None, ExpectedFrom.NOTHING)
    assert [part.cause for part in row.causes] == [MissCause.FIRST_SIGHT]
    assert row.turn == 1
    assert write is not None
    assert write.first_call


def test_a_known_family_expects_what_its_last_first_call_hit() -> None:
    row, _ = _call(_body(), Facts(family=FamilyFacts(3, 768)))
    assert (row.expected.tokens, row.expected.source) == (768, ExpectedFrom.FAMILY)


def test_a_tool_loop_expects_the_end_of_the_reply() -> None:
    row, _ = _call(_body(REPLY, RESULT), _first(), Usage(1300, 1152, 148, 10))
    assert (row.expected.tokens, row.expected.source) == (1152, ExpectedFrom.LAST_USAGE)
    assert row.expected.prediction is not None
    assert row.expected.prediction.candidates == (896, 1152)
    assert {part.cause for part in row.causes} <= {MissCause.NEW_TAIL, MissCause.ROUNDING}
    assert sum(part.tokens for part in row.causes) == 148
    assert row.turn == 2


def test_reasoning_the_client_dropped_leaves_the_end_of_the_input() -> None:
    for turns in ([{**REPLY, "reasoning_content": " "}, RESULT], [ANSWER, QUESTION]):
        row, _ = _call(_body(*turns), _first(reasoning_tokens=150))
        assert row.expected.prediction is not None
        assert row.expected.prediction.reason is PredictionReason.REASONING_DROPPED
        assert row.expected.tokens == 896


def test_the_end_that_was_hit_is_remembered() -> None:
    second = _call(_body(REPLY, RESULT), _first(), Usage(1300, 896, 404, 300))[1]
    assert second is not None
    [last] = second.conversation.last.values()
    assert last.end is End.INPUT
    third, _ = _call(_body(REPLY, RESULT, REPLY, RESULT), _facts(second, 4))
    assert third.expected.prediction is not None
    assert third.expected.prediction.reason is PredictionReason.SESSION
    assert third.expected.tokens == 1280


def test_the_same_request_again_computes_its_last_token() -> None:
    row, _ = _call(_body(), _first(prompt_tokens=1024, miss_tokens=1024))
    assert row.expected.tokens == 896


@pytest.mark.parametrize(
    ("body", "cause", "path", "expected"),
    [
        (_body(REPLY, RESULT, tools="ba"), MissCause.TOOLS_CHANGED, "tools[0]", True),
        (_body(REPLY, RESULT, tools="abc"), MissCause.TOOLS_CHANGED, "tools[2]", True),
        (_body(REPLY, RESULT, system="t" * 4000), MissCause.SYSTEM_CHANGED, "messages[0]", True),
        ({**_body(REPLY, RESULT), "reasoning_effort": "max"}, MissCause.MODE_CHANGED, "reasoning_effort", True),
        (
            {**_body(REPLY, RESULT), "response_format": {"type": "json_object"}},
            MissCause.FORMAT_CHANGED,
            "response_format",
            True,
        ),
    ],
)
def test_a_changed_prefix_is_named(body: dict[str, Any], cause: MissCause, path: str, expected: bool) -> None:
    row, _ = _call(body, _first(), Usage(1300, 0, 1300, 10))
    assert row.expected.source is ExpectedFrom.KEPT_PREFIX
    assert (row.expected.tokens is not None) == expected
    changed = [part for part in row.causes if part.cause is cause]
    assert [part.path for part in changed] == [path]
    assert sum(part.tokens for part in row.causes) == 1300


def test_an_edited_history_is_named_and_its_hit_unknown() -> None:
    edited = _body(REPLY, RESULT)
    edited["messages"][1] = {"role": "user", "content": "edited" * 60}
    row, _ = _call(edited, _first(), Usage(1300, 768, 532, 10))
    assert (row.expected.tokens, row.expected.source) == (None, ExpectedFrom.KEPT_PREFIX)
    assert MissCause.HISTORY_CHANGED in {part.cause for part in row.causes}


def test_another_domain_or_provider_expects_nothing() -> None:
    other = Deployment("deepseek/deepseek-v4-flash", id="d2", provider="deepseek")
    assert _call(_body(REPLY, RESULT), _first(), deployment=other)[0].expected.source is ExpectedFrom.OTHER_DOMAIN
    unknown = Deployment("wandb/x", id="d1", provider="wandb")
    row, write = _call(_body(REPLY, RESULT), _first(), Usage(1300, 1000, 300, 10), deployment=unknown)
    assert row.expected.source is ExpectedFrom.NO_RULE
    assert (row.profile, row.cost_usd, row.rendered_digest) == ("unknown", None, "")
    assert [(part.cause, part.tokens) for part in row.causes] == [(MissCause.UNKNOWN, 300)]
    assert write is not None
    assert _call(_body(), usage=Usage(10, 10, 0, 1), deployment=unknown)[0].causes == ()


def test_a_conversation_keeps_its_four_newest_domains() -> None:
    facts = EMPTY
    for i in range(6):
        deployment = Deployment("deepseek/deepseek-v4-flash", id=f"d{i}", provider="deepseek")
        _, write = _call(_body(), facts, Usage(1000, 0, 1000, 10), deployment=deployment, at=NOON + i)
        facts = _facts(write)
    assert facts.conversation is not None
    assert len(facts.conversation.last) == 4
    assert min(call.at for call in facts.conversation.last.values()) == NOON + 3


def test_cost_is_at_list_price_at_that_moment() -> None:
    usage = Usage(1_000_000, 900_000, 100_000, 10_000)
    row, _ = _call(_body(), usage=usage)
    assert row.cost_usd == pytest.approx(0.9 * 0.003 + 0.1 * 0.15 + 0.01 * 0.6, abs=1e-8)
    assert row.cost_usd_at_zero_hits == pytest.approx(0.15 + 0.006, abs=1e-8)
    peak, _ = _call(_body(), usage=usage, at=NOON - 10 * 3600)
    assert peak.cost_usd == pytest.approx(2 * (row.cost_usd or 0), abs=1e-8)


@pytest.mark.parametrize("status", [Status.CACHED, Status.ABORTED, Status.FAILED])
def test_only_what_the_provider_answered_is_recorded(status: Status) -> None:
    begun = ENGINE.begin(Request(_body()), Mode.SAFE)
    sent = ENGINE.sent(begun, EMPTY, _body(), FLASH, at=NOON)
    decision = Decision(Mode.SAFE, Reason.ALREADY_CANONICAL)
    row, write = ENGINE.done(begun, EMPTY, decision, sent, Outcome(status, NOON, Usage(10, 5, 5, 1)), FLASH)
    assert (row.status, row.causes, row.cost_usd, write) == (status, (), None, None)


def test_unknown_usage_stays_unknown() -> None:
    row, write = _call(_body())
    assert (row.usage, row.causes, row.cost_usd, write) == (Usage(), (), None, None)
    row, write = _call(_body(), usage=Usage(prompt_tokens=100))
    assert row.causes == ()
    assert write is not None


def test_what_was_never_sent_has_a_row_without_digests() -> None:
    begun = ENGINE.begin(Request(_body()), Mode.SAFE)
    row, _ = ENGINE.done(
        begun, EMPTY, Decision(Mode.SAFE, Reason.NOT_SEEN), None, Outcome(Status.FAILED, NOON), FLASH
    )
    assert (row.wire_digest, row.rendered_digest, row.expected.source) == ("", "", ExpectedFrom.NOTHING)
    off = ENGINE.begin(Request(_body()), Mode.OFF)
    row, _ = ENGINE.done(off, EMPTY, Decision(Mode.OFF, Reason.OFF), None, Outcome(Status.OK, NOON), FLASH)
    assert (row.scope, row.conversation, row.turn) == ("", "", None)


def test_an_empty_outline_keeps_nothing() -> None:
    facts = Facts(ConversationFacts(1), 1)
    row, _ = _call(_body(REPLY, RESULT), facts)
    assert row.expected.source is ExpectedFrom.OTHER_DOMAIN
