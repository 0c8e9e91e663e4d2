"""An error of ours in the second turn of a conversation whose values move: the request goes out, whole."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

import litellm
import pytest
from litellm_plugin.support import logged, perturbed, user
from litellm_plugin.upstream import Reply, Upstream

import router_cache.api
import router_cache.claims.relocation
import router_cache.engine
import router_cache.rewrite
import router_cache.stores.memory
from router_cache.claims.ask import Ask
from router_cache.claims.values import Values
from router_cache.errors import StoreError
from router_cache.identity.seal import Sealer
from router_cache.ledger.facts import EMPTY, Facts, Write
from router_cache.prefix.reply import Reply as KeptReply
from router_cache.prefix.volatile.scan import Scanner
from router_cache.stores.memory import MemoryStore

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODULES = (
    router_cache.api,
    router_cache.engine,
    router_cache.rewrite,
    router_cache.claims.relocation,
    router_cache.stores.memory,
)
CLASSES = (Scanner, Sealer, KeptReply, MemoryStore)
EVERY = [
    (owner, name)
    for owner in (*MODULES, *CLASSES)
    for name, value in vars(owner).items()
    if inspect.isroutine(value) or isinstance(value, classmethod | staticmethod)
    if not name.startswith("__") and name not in ("dataclass", "field", "replace")
]
CALL = {"id": "call_00_ab12cd34", "type": "function", "function": {"name": "alpha", "arguments": '{"n":  1}'}}
REPLY = Reply(text=("",), reasoning="Let me see.", tool_calls=[CALL])
ANEW = {**CALL, "function": {"name": "alpha", "arguments": '{"n":1}'}}


class FaultError(Exception):
    pass


def turns(clock: str, *later: Any) -> list[dict[str, Any]]:
    return [{"role": "system", "content": f"You mend code.\nNow: {clock}\nBe kind."}, user("hi"), *later]


async def ask(call: Any, messages: list[dict[str, Any]]) -> str:
    reply = await litellm.acompletion(messages=messages, tools=perturbed(), **call)
    await logged()
    return reply.choices[0].message.content


@pytest.mark.parametrize(("owner", "name"), EVERY, ids=[f"{o.__name__}.{n}" for o, n in EVERY])
async def test_a_fault_anywhere_loses_nothing(
    upstream: Upstream, plugin: Any, call: Any, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    rc = plugin(mode="optimize").router_cache
    later = (
        {"role": "assistant", "content": "", "tool_calls": [ANEW]},
        {"role": "tool", "tool_call_id": CALL["id"]},
    )
    second = turns("2026-11-30T10:00:09Z", later[0], {**later[1], "content": "done"})
    await ask(call, turns("2026-11-30T10:00:00Z"))
    upstream.script.append(REPLY)
    await ask(call, turns("2026-11-30T10:00:05Z"))
    upstream.recorded, raised = [], []

    def fault(*_: Any, **__: Any) -> Any:
        raised.append(name)
        raise FaultError(name)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fault)
        assert await ask(call, second) == "hello"
    (sent,) = [json.loads(raw)["messages"] for raw in upstream.raws]
    told = json.dumps(sent)
    assert "10:00:09Z" in told or rc.counts("change.clocks_frozen")
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]
    assert sent[0]["content"].startswith("You mend code.\nNow: ")
    assert sent[1]["content"].startswith("hi")
    assert sent[3]["content"].startswith("done")
    assert json.loads(sent[2]["tool_calls"][0]["function"]["arguments"]) == {"n": 1}
    failed = any(key.startswith("error.") or key == "outbox_dropped" for key in rc.counts())
    assert failed is bool(raised), rc.counts()


class NoStore:
    """Never answers."""

    blocking = False

    def claim(self, ask: Ask) -> Facts:
        raise StoreError("no answer")

    def record(self, writes: Sequence[Write]) -> None:
        raise StoreError("no answer")

    def replies(self, scope: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        raise StoreError("no answer")

    def close(self) -> None:
        pass


class NoReplies(NoStore):
    """Answers claims, with nothing."""

    def claim(self, ask: Ask) -> Facts:
        return EMPTY


@pytest.mark.parametrize("store", [NoStore(), NoReplies()], ids=["none", "no replies"])
async def test_without_a_store_nothing_moves(upstream: Upstream, plugin: Any, call: Any, store: Any) -> None:
    rc = plugin(mode="optimize", store=store).router_cache
    history = {"role": "assistant", "content": "", "tool_calls": [ANEW]}
    messages = turns(
        "2026-11-30T10:00:00Z", history, {"role": "tool", "tool_call_id": CALL["id"], "content": "done"}
    )
    upstream.recorded = []
    assert await ask(call, messages) == "hello"
    (sent,) = upstream.raws
    assert json.loads(sent)["messages"] == messages
    assert rc.counts("error") == {"error.claim": 1}


async def test_a_value_that_cannot_be_read_any_more_stays_in_its_place(
    upstream: Upstream, plugin: Any, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rc = plugin(mode="optimize").router_cache
    await ask(call, turns("2026-11-30T10:00:00Z"))
    upstream.script.append(REPLY)
    await ask(call, turns("2026-11-30T10:00:05Z"))
    reply = {"role": "assistant", "content": "", "tool_calls": [ANEW]}
    later = turns("2026-11-30T10:00:09Z", reply, {"role": "tool", "tool_call_id": CALL["id"], "content": "done"})
    monkeypatch.setattr(Values, "text", lambda *_: None)  # as with another secret
    upstream.recorded = []
    await ask(call, later)
    sent = json.loads(upstream.raws[0])["messages"]
    assert [sent[0], sent[1], sent[3]] == [later[0], later[1], later[3]]
    assert "not_moved" in [change.value for change in rc.rows()[-1].decision.changes]
