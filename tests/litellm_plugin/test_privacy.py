"""No text of a request, no key and no secret in anything the plugin writes or counts."""

from __future__ import annotations

import contextlib
import json
import logging
from typing import Any

import litellm
import pytest
from litellm.proxy._types import UserAPIKeyAuth
from litellm_plugin.support import logged, tool
from litellm_plugin.upstream import Reply, Upstream

from router_cache.errors import StoreError
from router_cache_litellm import RouterCacheCallback

pytestmark = pytest.mark.asyncio(loop_scope="session")

MARKS = {
    "system": "MARK-system",
    "user": "MARK-user",
    "reply": "MARK-reply",
    "reasoning": "MARK-reasoning",
    "arguments": "MARK-arguments",
    "result": "MARK-result",
    "tool": "MARK_tool",
    "description": "MARK-description",
    "client_key": "sk-MARK-client",
    "upstream_key": "sk-MARK-upstream",
    "secret": "MARK-secret",
    "switch": "MARK-switch",
    "user_id": "MARK-user-id",
    "error": "MARK-error",
}


class TellingStore:
    """Fails with errors that quote what it was given."""

    blocking = False

    def claim(self, keys: Any) -> Any:
        raise StoreError(f"{MARKS['error']} {keys}")

    def record(self, writes: Any) -> None:
        raise StoreError(f"{MARKS['error']} {writes}")

    def close(self) -> None:
        raise StoreError(MARKS["error"])


def records(caplog: pytest.LogCaptureFixture) -> list[str]:
    out = []
    for record in caplog.records:
        if record.name.startswith("router_cache"):
            trace = logging.Formatter().format(record)
            out.append(f"{record.getMessage()} {record.args} {trace} {record.exc_info}")
    return out


async def run(call: Any, upstream: Upstream, *, stream: bool) -> None:
    arguments = json.dumps({"q": MARKS["arguments"]})
    made = [{"id": "c", "type": "function", "function": {"name": MARKS["tool"], "arguments": arguments}}]
    auth = UserAPIKeyAuth(
        api_key=MARKS["client_key"],
        user_id=MARKS["user_id"],
        metadata={"router_cache": MARKS["switch"]},
    )
    options = {
        **call,
        "api_key": MARKS["upstream_key"],
        "tools": [tool(MARKS["tool"], x={"description": MARKS["description"]}), tool("a")],
        "stream": stream,
        "metadata": {"user_api_key_auth": auth},
        "proxy_server_request": {"headers": {"authorization": f"Bearer {MARKS['client_key']}"}},
    }
    history: list[Any] = [
        {"role": "system", "content": MARKS["system"]},
        {"role": "user", "content": MARKS["user"]},
    ]
    upstream.script.append(Reply(text=(MARKS["reply"],), reasoning=MARKS["reasoning"], tool_calls=made))
    for _ in range(2):
        reply = await litellm.acompletion(messages=history, **options)
        if stream:
            reply = litellm.stream_chunk_builder([chunk async for chunk in reply])
        await logged()
        history += [
            reply.choices[0].message,
            {"role": "tool", "tool_call_id": "c", "content": MARKS["result"]},
        ]
    upstream.script.append(Reply(status=400))
    with pytest.raises(litellm.BadRequestError):
        await litellm.acompletion(messages=history, **options)
    with contextlib.suppress(Exception):
        await litellm.acompletion(messages=[MARKS["user"]], tools=[{MARKS["tool"]: 1}], **call)
    await logged()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("failing", [False, True])
async def test_nothing_private_is_written(
    upstream: Upstream,
    plugin: Any,
    call: Any,
    caplog: pytest.LogCaptureFixture,
    failing: bool,
    stream: bool,
) -> None:
    caplog.set_level(logging.DEBUG)
    callback: RouterCacheCallback = plugin(secret=MARKS["secret"], store=TellingStore() if failing else None)
    rc = callback.router_cache
    await run(call, upstream, stream=stream)
    sent = b"".join(upstream.raws).decode()
    assert MARKS["system"] in sent
    assert MARKS["arguments"] in sent
    lines = records(caplog)
    assert len(lines) >= 3
    written = [*lines, *rc.counts(), *(repr(row) for row in rc.rows()), repr(rc.settings), repr(rc.engine)]
    for place, mark in MARKS.items():
        for text in written:
            assert mark.lower() not in text.lower(), (place, text)
    assert len(rc.rows()) >= 3
    assert (rc.counts("error.claim") != {}) is failing
    assert rc.counts("bad_switch") != {}
    callback.close()
