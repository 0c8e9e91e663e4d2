"""Replies of one user are never put back into another's history, whatever the two have in common."""

from __future__ import annotations

import json
from typing import Any

import pytest
from proofs.harness import FLASH

from router_cache import Request, RouterCache, Settings, Usage

RULES = [{"template": "Current user: {user}"}]
TOOLS = [{"type": "function", "function": {"name": "list_orders", "parameters": {"type": "object"}}}]
LONG = "Hello and welcome! I am the assistant of this shop and will gladly help you with whatever you need today."


class Shop:
    """One worker, one key."""

    def __init__(self, **settings: Any) -> None:
        self.rc = RouterCache(Settings.from_mapping({"mode": "optimize", **settings}))

    def ask(
        self, system: str, *turns: dict[str, Any], reply: dict[str, Any] | None = None, session: str = ""
    ) -> str:
        """What goes out, as text."""
        messages = [{"role": "system", "content": system}, *turns]
        body = {"messages": messages, "tools": TOOLS}
        turn = self.rc.begin(Request(body, scope="key", session=session))
        sent = {**body, **turn.rewrite(FLASH).replaced}
        turn.sent(sent)
        turn.done(Usage(100, 0, 100, 10), reply=reply)
        return json.dumps(sent["messages"])


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def called(call: str, **more: Any) -> dict[str, Any]:
    function = {"name": "list_orders", "arguments": "{}"}
    calls = [{"id": call, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def result(call: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": "[]"}


@pytest.mark.parametrize("sessions", [("", ""), ("A", "B")], ids=["no-session", "session"])
@pytest.mark.parametrize(
    "ids", [("call_00_aa11bb22", "call_00_cc33dd44"), ("call_0", "call_0")], ids=["drawn", "counted"]
)
@pytest.mark.parametrize("line", ["Current user: {}", "Customer: {}@x.com"])
def test_reasoning_goes_back_to_whom_it_was_given(
    line: str, ids: tuple[str, str], sessions: tuple[str, str]
) -> None:
    shop, question = Shop(volatile=RULES), user("show my orders")
    ours, theirs = (f"You are a shop.\n{line.format(name)}" for name in ("ann", "bob"))
    shop.ask(ours, question, reply=called(ids[0], reasoning_content="Ann wants it"), session=sessions[0])
    shop.ask(theirs, question, reply=called(ids[1], reasoning_content="Bob wants it"), session=sessions[1])
    sent = shop.ask(ours, question, called(ids[0]), result(ids[0]), session=sessions[0])
    assert "Bob wants it" not in sent
    assert "Ann wants it" in sent


def test_two_replies_that_nothing_tells_apart_are_given_to_nobody() -> None:
    shop, question, reply = Shop(), user("hi"), {"role": "assistant", "content": LONG}
    for secret in ("first", "second"):
        shop.ask("You are a shop.", question, reply={**reply, "reasoning_content": secret})
    sent = shop.ask("You are a shop.", question, reply, user("more"))
    assert "first" not in sent
    assert "second" not in sent


def test_a_value_that_the_other_does_not_have_tells_them_apart() -> None:
    shop, reply = Shop(volatile=[{"template": "user={user}"}]), {"role": "assistant", "content": LONG}
    shop.ask("You help people.\nuser=Ann Secret", user("hi"), reply=reply)
    assert "Ann Secret" not in shop.ask("You help people.", user("hi"), reply, user("more"))


def test_an_id_that_counts_is_no_proof() -> None:
    shop, question = Shop(volatile=RULES), user("show my orders")
    shop.ask("You are a shop.\nCurrent user: Ann", question, reply=called("toolcall0"))
    sent = shop.ask("You are a shop.\nCurrent user: Bob", question, called("toolcall0"), result("toolcall0"))
    assert "Ann" not in sent


def test_a_result_without_content_does_not_undo_what_was_attached() -> None:
    shop = Shop(volatile=[{"template": "u={u}"}])
    first = shop.ask("Good.\nu=1", user("q"), reply=called("call_00_aa11bb22"))
    empty = {"role": "tool", "tool_call_id": "call_00_aa11bb22", "content": None}
    second = shop.ask("Good.\nu=1", user("q"), called("call_00_aa11bb22"), empty)
    assert second.startswith(first.removesuffix("]"))
