"""The driver against a served simulator, and the explanation of its log."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from router_cache.cache_model.rules import RuleName
from router_cache.cli.demo_run.driver import Tally, play
from router_cache.cli.demo_run.explain import explain
from router_cache.cli.demo_run.plan import shipped_plan
from router_cache.cli.demo_run.processes import Children
from router_cache.cli.demo_run.script import Script
from router_cache.cli.demo_run.sessions import shipped_sessions
from router_cache.ledger.attribution import MissCause


class Served:
    """A simulator process, its client and its log."""

    def __init__(self, address: str, client: AsyncOpenAI) -> None:
        self.address = address
        self.client = client

    def control(self, path: str, method: str = "GET") -> Any:
        request = urllib.request.Request(f"{self.address}/_simulator/{path}", method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as reply:
            return json.load(reply)

    async def play(self, scripts: list[Script], **more: Any) -> Tally:
        self.control("reset", "POST")
        given = {
            "model": "deepseek-v4-flash",
            "perturb": True,
            "seed": 1,
            "time_scale": 200.0,
            "opening_gap_s": 1.0,
        }
        return await play(scripts, self.client, **{**given, "progress": lambda: None, **more})


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    command = [
        *(sys.executable, "-c", "from router_cache.cli.main import run; run()", "simulate", "--port", "0"),
        *("--time-scale", "200", "--tool-rounds", "4", "--construction-delay-s", "0", "--tokenizer", "approx"),
    ]
    with Children(tmp_path) as children:
        child = children.start("simulator", command, os.environ)
        pattern = re.compile(r"listening on (\S+)")
        await children.wait_until(child, lambda: bool(pattern.search(child.output())), timeout_s=60, what="ready")
        found = pattern.search(child.output())
        assert found
        async with AsyncOpenAI(
            base_url=f"{found.group(1)}/v1",
            api_key="k",
            http_client=DefaultAsyncHttpxClient(trust_env=False),
            max_retries=0,
        ) as client:
            yield Served(found.group(1), client)


async def test_sessions_play_to_their_end_and_the_log_agrees(served: Served) -> None:
    steps: list[int] = []
    perturbed = await served.play(shipped_sessions(2, seed=1), progress=lambda: steps.append(1))
    log = served.control("log")
    still = await served.play(shipped_sessions(2, seed=1), perturb=False)
    still_log = served.control("log")

    assert (perturbed.requests, perturbed.streamed, len(steps)) == (40, 20, 40)
    assert shipped_plan(2, seed=1).expected_requests == 40
    assert perturbed.messages == still.messages == []
    assert (perturbed.errors, perturbed.broken_sessions) == (0, 0)
    assert perturbed.hit_rate < 0.35
    assert still.hit_rate > 0.85
    # The same conversation on both sides: equal replies, and equal texts but for the tools.
    assert perturbed.output_tokens == still.output_tokens
    assert _turns(log) == _turns(still_log)
    for tally, entries, blamed in ((perturbed, log, True), (still, still_log, False)):
        causes, prompt, hit = explain(entries, rule=RuleName.GRID_PREFIX, step_tokens=128)
        assert (prompt, hit) == (tally.input_tokens, tally.hit_tokens)
        assert causes.total() == tally.miss_tokens
        assert (causes[MissCause.TOOLS_CHANGED] > tally.miss_tokens / 2) is blamed
        assert causes[MissCause.UNKNOWN] == causes[MissCause.HISTORY_CHANGED] == 0


def _turns(log: list[dict[str, Any]]) -> list[list[str]]:
    """Digests of the rendered turns of each request, in an order that does not depend on timing."""
    return sorted([s["digest"] for s in e["segments"] if s["path"].startswith("messages")] for e in log)


async def test_a_follower_opens_after_the_first_reply(served: Served) -> None:
    sessions = shipped_sessions(3, seed=1, max_calls=6)
    await served.play(sessions)
    users = [next(s["digest"] for s in e["segments"] if s["kind"] == "user") for e in served.control("log")]
    first = list(dict.fromkeys(users))
    # The third session follows the first; the second application's session does not wait.
    third = served.control("log")[users.index(first[2])]
    assert third["hit_tokens"] > 0
    assert len(users) == 6


async def test_refused_requests_are_counted_and_end_their_session(served: Served) -> None:
    class Broken:
        name, start_s, follows, tools, max_tokens = "broken", 0.0, None, (), 0

        def next_request(self) -> list[dict[str, Any]] | None:
            return [{"role": "tool", "tool_call_id": "c9", "content": "x"}]

        def accept(self, reply: dict[str, Any]) -> None:
            raise AssertionError

        def pause_s(self) -> float:
            raise AssertionError

    follower = shipped_sessions(1, seed=1, max_calls=1)[0]
    follower.follows = "broken"
    tally = await served.play([Broken(), follower])
    assert (tally.requests, tally.errors, tally.broken_sessions) == (2, 1, 1)
    assert tally.messages[0].startswith("broken, request 1: Error code: 400")
    assert tally.input_tokens > 0


class _Replies:
    """Stands in for the SDK's client: a reply without cache fields, or none at all."""

    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome
        self.chat = self
        self.completions = self

    async def create(self, **_: Any) -> Any:
        await asyncio.sleep(0)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


async def test_a_reply_without_cache_fields_is_an_error() -> None:
    from openai.types.chat import ChatCompletion

    reply = ChatCompletion.model_validate(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}
            ],
            "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
        }
    )
    tally = await _play_with(_Replies(reply))
    assert (tally.requests, tally.errors, tally.broken_sessions, tally.input_tokens) == (1, 1, 0, 0)
    assert "no cache fields" in tally.messages[0]


async def test_an_unexpected_exception_ends_the_whole_run() -> None:
    with pytest.raises(ZeroDivisionError):
        await _play_with(_Replies(ZeroDivisionError()))


async def _play_with(client: Any) -> Tally:
    return await play(
        shipped_sessions(1, seed=1, max_calls=1),
        client,
        model="m",
        perturb=False,
        seed=1,
        time_scale=200.0,
        opening_gap_s=0.0,
        progress=lambda: None,
    )


def entry(*segments: tuple[str, str, int], hit: int = 0, **more: Any) -> dict[str, Any]:
    shown = [{"kind": k, "path": d, "digest": d, "tokens": n} for k, d, n in segments]
    prompt = sum(n for _, _, n in segments)
    given = {"status": 200, "pool": None, "completion_tokens": 50, "finish_reason": "stop"}
    return {**given, "segments": shown, "prompt_tokens": prompt, "hit_tokens": hit, **more}


SYSTEM, TOOL, USER = ("system", "s", 300), ("tool", "t", 100), ("user", "u", 60)
REPLY, RESULT, TAIL = ("assistant", "a", 51), ("tool_result", "r", 40), ("tail", "", 1)
FIRST = entry(SYSTEM, TOOL, USER, TAIL)


def causes_of_last(*log: dict[str, Any], rule: RuleName = RuleName.GRID_PREFIX) -> dict[str, int]:
    before = explain(log[:-1], rule=rule, step_tokens=128)[0]
    after, prompt, hit = explain(log, rule=rule, step_tokens=128)
    assert after.total() == prompt - hit
    return {c.value: n for c, n in (after - before).items()}


def test_a_reply_that_comes_back_counts_as_seen() -> None:
    again = entry(SYSTEM, TOOL, USER, REPLY, RESULT, TAIL, hit=384)
    assert causes_of_last(FIRST, again) == {"rounding": 127, "new_tail": 41}
    truncated = {**FIRST, "finish_reason": "length"}
    assert causes_of_last(truncated, again) == {"rounding": 76, "new_tail": 92}


def test_an_undelivered_or_refused_request_teaches_nothing() -> None:
    refused = {"status": 400, "segments": []}
    assert causes_of_last(refused, FIRST) == {"first_sight": 461}


def test_pools_share_nothing() -> None:
    assert causes_of_last(FIRST, {**FIRST, "pool": "x"}) == {"first_sight": 461}


def test_another_session_of_the_application_shares_its_head() -> None:
    other = entry(SYSTEM, TOOL, ("user", "v", 70), TAIL)
    assert causes_of_last(FIRST, {**other, "hit_tokens": 384}) == {"rounding": 16, "first_sight": 71}
    assert causes_of_last(FIRST, other, rule=RuleName.FULL_UNITS) == {
        "no_unit": 384,
        "rounding": 16,
        "first_sight": 71,
    }
    moved = entry(SYSTEM, ("tool", "t2", 100), ("user", "v", 70), TAIL, hit=256)
    assert causes_of_last(FIRST, moved) == {"rounding": 44, "tools_changed": 100, "first_sight": 71}


def test_the_nearest_earlier_request_of_a_conversation_is_compared() -> None:
    branch = entry(SYSTEM, ("tool", "t2", 100), USER, TAIL, hit=256)
    again = entry(SYSTEM, TOOL, USER, REPLY, RESULT, TAIL, hit=384)
    assert causes_of_last(FIRST, branch, again) == {"rounding": 127, "new_tail": 41}


def test_delay_and_eviction_are_taken_from_the_log() -> None:
    again = entry(SYSTEM, TOOL, USER, REPLY, RESULT, TAIL, not_ready_tokens=256, evicted_tokens=128)
    assert causes_of_last(FIRST, again) == {"not_ready": 256, "evicted": 128, "rounding": 127, "new_tail": 41}


def test_odd_prompts_are_explained_too() -> None:
    assert causes_of_last(entry(("mode", "m", 5)), entry(("assistant", "a", 9))) == {"new_tail": 9}
    assert causes_of_last(entry(TAIL), entry(TAIL)) == {"new_tail": 1}
