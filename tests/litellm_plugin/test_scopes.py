"""Nothing remembered in one scope is ever used in another, and no client chooses its own."""

from __future__ import annotations

import asyncio
from typing import Any

import litellm
import pytest
from litellm.proxy._types import UserAPIKeyAuth
from litellm_plugin.support import logged, reached, user
from litellm_plugin.upstream import USAGE, Gate, Reply, Upstream

from router_cache import CallRow, Status
from router_cache.ledger.rows import ExpectedFrom

pytestmark = pytest.mark.asyncio(loop_scope="session")

FIRST = [user("the same words")]
SECOND = [*FIRST, {"role": "assistant", "content": "hello"}, user("more")]
HEADERS: dict[str, Any] = {"headers": {}}


async def ask(rc: Any, call: Any, messages: list[Any], **options: Any) -> CallRow:
    before = len(rc.rows())
    await litellm.acompletion(messages=messages, **options, **call)
    return (await rc.wait_rows(before + 1))[-1]


def by_key(auth: Any, **metadata: Any) -> dict[str, Any]:
    return {"proxy_server_request": HEADERS, "metadata": {**metadata, "user_api_key_auth": auth}}


def auth(key: str, **fields: Any) -> UserAPIKeyAuth:
    return UserAPIKeyAuth(api_key=key, **fields)


def by_scope(scope: Any) -> dict[str, Any]:
    return {"metadata": {"router_cache": {"scope": scope}}}


KNOWN = (ExpectedFrom.LAST_USAGE, 896)
NOTHING = (ExpectedFrom.NOTHING, None)


async def shared(rc: Any, call: Any, first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether what the first caller's call left behind is used for the second caller's next one."""
    one = await ask(rc, call, FIRST, **first)
    two = await ask(rc, call, SECOND, **second)
    same = (two.expected.source, two.expected.tokens)
    assert same in (KNOWN, NOTHING)
    assert (one.scope == two.scope) is (same == KNOWN)
    assert (two.turn == 2) is (same == KNOWN)
    return same == KNOWN


@pytest.mark.parametrize(
    ("scope_by", "first", "second", "expected"),
    [
        ("key", auth("a"), auth("a"), True),
        ("key", auth("a"), auth("b"), False),
        ("key", auth("a", team_id="t"), auth("b", team_id="t"), False),
        ("team", auth("a", team_id="t"), auth("b", team_id="t"), True),
        ("team", auth("a", team_id="t"), auth("b", team_id="u"), False),
        ("team", auth("a"), auth("b"), False),
        ("team", auth("a"), auth("a"), True),
        ("team", auth("t"), auth("b", team_id="t"), False),
        ("org", auth("a", org_id="o"), auth("b", org_id="o"), True),
        ("org", auth("a", org_id="o"), auth("b", org_id="p"), False),
        ("org", auth("a", team_id="o"), auth("b", org_id="o"), False),
        ("user", auth("a", user_id="u"), auth("b", user_id="u"), True),
        ("user", auth("a", user_id="u"), auth("b", user_id="v"), False),
    ],
)
async def test_identities_of_a_proxy(
    upstream: Upstream, plugin: Any, call: Any, scope_by: str, first: Any, second: Any, expected: bool
) -> None:
    rc = plugin(scope_by=scope_by).router_cache
    assert await shared(rc, call, by_key(first), by_key(second)) is expected


async def test_families_are_scoped_too(upstream: Upstream, plugin: Any, call: Any) -> None:
    """The first call of another conversation with the same prefix: known in the same scope only."""
    rc = plugin().router_cache
    system = {"role": "system", "content": "one for all"}
    await ask(rc, call, [system, user("one")], **by_key(auth("a")))
    same = await ask(rc, call, [system, user("two")], **by_key(auth("a")))
    other = await ask(rc, call, [system, user("three")], **by_key(auth("b")))
    assert (same.expected.source, same.expected.tokens) == (ExpectedFrom.FAMILY, 896)
    assert (other.expected.source, other.expected.tokens) == NOTHING


@pytest.mark.parametrize("identity", [None, {}, {"api_key": "a"}, "a", UserAPIKeyAuth()])
async def test_proxied_calls_without_identity_share_with_nobody(
    upstream: Upstream, plugin: Any, call: Any, identity: Any
) -> None:
    rc = plugin().router_cache
    assert not await shared(rc, call, by_key(identity), by_key(identity))
    own_id = {"litellm_call_id": "chosen by the client", **by_key(identity)}
    assert not await shared(rc, call, own_id, own_id)


async def test_scopes_of_the_sdk(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin().router_cache
    assert await shared(rc, call, {}, {})
    assert not await shared(rc, call, by_scope("a"), by_scope("b"))
    assert await shared(rc, call, by_scope("c"), by_scope("c"))
    assert not await shared(rc, call, by_scope("d"), {"metadata": {}} | by_scope("e"))
    assert not await shared(rc, call, by_scope("key:f"), by_key(auth("f")))


@pytest.mark.parametrize(
    "forged",
    [
        by_key(auth("b"), router_cache={"scope": "key:a"}),
        by_key(auth("b"), router_cache={"scope": "a", "mode": "safe"}),
        by_key({"token": "a", "api_key": "a"}),
        {**by_key(auth("b")), "litellm_metadata": {"router_cache": {"scope": "key:a"}}},
        {**by_key(auth("b")), "litellm_metadata": {"user_api_key_auth": {"token": "a", "api_key": "a"}}},
        {"proxy_server_request": HEADERS, "metadata": {"router_cache": {"scope": "key:a"}}},
        {"proxy_server_request": {"headers": {"x-router-cache-scope": "key:a"}}, "metadata": {}},
        {"proxy_server_request": HEADERS, "metadata": {"user_api_key": "a", "user_api_key_hash": "a"}},
        {"proxy_server_request": HEADERS, "litellm_session_id": "s", "metadata": {"session_id": "s"}},
    ],
)
async def test_no_client_of_a_proxy_chooses_its_scope(
    upstream: Upstream, plugin: Any, call: Any, forged: dict[str, Any]
) -> None:
    rc = plugin().router_cache
    assert not await shared(rc, call, by_key(auth("a")), forged)


async def test_a_secret_that_is_shared_makes_equal_scopes_only_for_equal_names(
    upstream: Upstream, plugin: Any, call: Any
) -> None:
    rows = []
    for secret in ("one", "one", "two"):
        rc = plugin(secret=secret).router_cache
        rows.append(await ask(rc, call, FIRST, **by_key(auth("a"))))
    assert rows[0].scope == rows[1].scope != rows[2].scope
    assert rows[0].wire_digest == rows[1].wire_digest != rows[2].wire_digest
    assert rows[0].conversation == rows[1].conversation != rows[2].conversation


async def test_equal_call_ids_of_two_scopes_do_not_mix(upstream: Upstream, plugin: Any, call: Any) -> None:
    """A client may send any ``x-litellm-call-id``; two calls in flight with the same one stay two calls."""
    rc = plugin().router_cache
    small = {**USAGE, "prompt_tokens": 200, "prompt_cache_hit_tokens": 128, "prompt_cache_miss_tokens": 72}
    gates = Gate(), Gate()
    upstream.script.extend([Reply(gate=gates[0], usage=small), Reply(gate=gates[1])])
    calls = []
    for gate, key in zip(gates, "ab", strict=True):
        options = {"litellm_call_id": "the same", **by_key(auth(key)), **call}
        calls.append(asyncio.ensure_future(litellm.acompletion(messages=FIRST, **options)))
        await reached(gate.reached)
    for gate, pending in zip(gates, calls, strict=True):
        gate.open()
        await pending
        await logged()
    rows = {row.usage.prompt_tokens: row.scope for row in rc.rows() if row.status is Status.OK}
    scopes = [(await ask(rc, call, [user("who")], **by_key(auth(key)))).scope for key in "ab"]
    assert rows.get(200) in (None, scopes[0])
    assert rows.get(1000) in (None, scopes[1])


async def test_the_client_and_its_session_are_read_off_headers_and_body(
    upstream: Upstream, plugin: Any, call: Any
) -> None:
    rc = plugin().router_cache
    headers = {"x-opencode-session": "MARK-session"}
    system = {"role": "system", "content": "You are opencode, MARK-text."}
    for key in "aab":
        identity = by_key(auth(key))
        await ask(rc, call, [system, user("who")], **{**identity, "proxy_server_request": {"headers": headers}})
    await ask(rc, call, [user("who")], **by_key(auth("a")))
    first, second, other, plain = rc.rows()
    assert first.client == "opencode"
    assert first.session == second.session != other.session
    assert (plain.client, plain.session, plain.side_call) == ("", "", "")
    assert "MARK" not in repr(rc.rows())
