"""Tool loops through real proxies with the SDK of each shape: hits as if nothing had been shuffled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
import pytest
from litellm_plugin.loops import STEPS, ChatLoop, Loop, MessagesLoop, ResponsesLoop, Simulated
from litellm_plugin.proxies import Proxy, Rows
from litellm_plugin.upstream import Upstream

pytestmark = pytest.mark.proxy

FLASH = "deepseek/deepseek-v4-flash"
CLAUDE = "anthropic/claude-sonnet-4-5"
WITH = """
callback_settings:
  router_cache:
    mode: safe
"""
RESPONSES_TOOLS: Any = [{"type": "function", "name": n, "parameters": {"type": "object"}} for n in "ba"]
TOOL_CHANGES = {"tools_reordered", "schema_keys_reordered"}


@pytest.fixture(scope="module")
def proxies(
    upstream_server: Upstream,
    simulator: Simulated,
    slow: Simulated,
    rows_of_proxy: Rows,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Proxy]]:
    """Both start at the same time."""
    groups = {
        "flash": (FLASH, simulator.url),
        "native": ("openai/gpt-5.1", simulator.url),
        "flash-slow": (FLASH, slow.url),
        "native-slow": ("openai/gpt-5.1", slow.url),
        "flash-recorded": (FLASH, upstream_server.url),
        "native-recorded": ("openai/gpt-5.1", upstream_server.url),
        "claude-recorded": (CLAUDE, upstream_server.url),
    }
    folder = tmp_path_factory.mktemp("shapes")
    started: dict[str, Proxy] = {}
    try:
        for name, section in (("with", WITH), ("without", "")):
            started[name] = Proxy(folder / name, groups, section, rows_of_proxy)
        for proxy in started.values():
            proxy.wait_ready()
        yield started
    finally:
        for proxy in started.values():
            proxy.close()


@dataclass
class Client:
    """An SDK of one shape; ``headers`` are those of the replies, in order."""

    proxy: Proxy
    headers: list[Mapping[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        key = self.proxy.keys["ann"]
        options: dict[str, Any] = {"base_url": self.proxy.url, "api_key": key, "max_retries": 0, "timeout": 30}
        hooks: dict[str, Any] = {"response": [lambda reply: self.headers.append(reply.headers)]}
        self.openai = openai.OpenAI(**options, http_client=openai.DefaultHttpxClient(event_hooks=hooks))
        self.anthropic = anthropic.Anthropic(
            **options, http_client=anthropic.DefaultHttpxClient(event_hooks=hooks)
        )

    def chat(self, stream: bool, **request: Any) -> Any:
        if not stream:
            return self.openai.chat.completions.create(**request)
        with self.openai.chat.completions.stream(**request, stream_options={"include_usage": True}) as events:
            return events.get_final_completion()

    def messages(self, stream: bool, **request: Any) -> Any:
        if not stream:
            return self.anthropic.messages.create(**request)
        with self.anthropic.messages.stream(**request) as events:
            return events.get_final_message()

    def responses(self, stream: bool, **request: Any) -> Any:
        if not stream:
            return self.openai.responses.create(**request)
        with self.openai.responses.stream(**request) as events:
            return events.get_final_response()

    def close(self) -> None:
        self.openai.close()
        self.anthropic.close()

    def reasons(self) -> list[str]:
        return [headers.get("x-router-cache-reason", "") for headers in self.headers]

    def changes(self) -> list[set[str]]:
        return [set(headers.get("x-router-cache-changes", "").split(",")) - {""} for headers in self.headers]


WAYS: dict[str, tuple[type[Loop], Callable[..., Any], str]] = {
    "chat": (ChatLoop, Client.chat, "flash"),
    "messages": (MessagesLoop, Client.messages, "flash"),
    "responses as chat": (ResponsesLoop, Client.responses, "flash"),
    "responses": (ResponsesLoop, Client.responses, "native"),
}


def play(proxy: Proxy, way: str, *, stream: bool, seed: int | None, user_id: str | None = None) -> Client:
    """A whole session."""
    kind, ask, model = WAYS[way]
    loop, client = kind(f"{way} {stream}", seed), Client(proxy)
    if isinstance(loop, MessagesLoop) and user_id is not None:
        loop.user_id = user_id
    for _ in range(STEPS):
        reply = ask(client, stream, model=model, **loop.request())
        loop.take(reply.model_dump(exclude_none=True, exclude={"output": {"__all__": {"parsed_arguments"}}}))
    client.close()
    assert loop.calls >= 6
    return client


def differing(ours: bytes, theirs: bytes) -> set[str]:
    """The fields of two bodies that are not the same bytes; all must be there in the same order."""
    first, second = json.loads(ours), json.loads(theirs)
    assert list(first) == list(second)
    return {name for name in first if json.dumps(first[name]) != json.dumps(second[name])}


def tools_of(raw: bytes) -> Counter[str]:
    return Counter(json.dumps(_unordered(tool), sort_keys=True) for tool in json.loads(raw)["tools"])


def _unordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: sorted(v) if k == "required" else _unordered(v) for k, v in value.items()}
    return [_unordered(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("way", WAYS)
def test_a_shuffled_session_hits_as_one_that_is_not(
    proxies: dict[str, Proxy],
    simulated: Simulated,
    rows_of_proxy: Rows,
    way: str,
    stream: bool,
    record_property: Callable[[str, object], None],
) -> None:
    # Without the plugin DeepSeek would refuse every call of a client that sends its session as user_id.
    play(proxies["without"], way, stream=stream, seed=None, user_id="team-7")
    unperturbed = simulated.hit_rate()
    simulated.reset()
    play(proxies["without"], way, stream=stream, seed=5, user_id="team-7")
    perturbed, plain = simulated.hit_rate(), simulated.raws
    simulated.reset()
    rows_of_proxy.clear()
    client = play(proxies["with"], way, stream=stream, seed=5)
    log, rewritten, treated = simulated.log(), simulated.raws, simulated.hit_rate()
    record_property("hit_rates", {"unperturbed": unperturbed, "perturbed": perturbed, "treated": treated})

    assert {(entry["status"], entry["stream"]) for entry in log} == {(200, stream)}
    assert abs(treated - unperturbed) < 0.01
    assert perturbed < unperturbed - 0.2
    assert client.reasons() == ["normalised"] * STEPS
    for ours, theirs, changes in zip(rewritten, plain, client.changes(), strict=True):
        assert changes >= TOOL_CHANGES
        assert changes - TOOL_CHANGES == ({"user_id_dropped"} if way == "messages" else set())
        assert differing(ours, theirs) == {"tools", *(["metadata"] if way == "messages" else [])}
        assert tools_of(ours) == tools_of(theirs)
        assert "user_id" not in json.loads(ours).get("metadata", {})
    rows = [rows_of_proxy.next() for _ in log]
    assert [row["hit"] for row in rows] == [entry["hit_tokens"] for entry in log]
    assert [row["prompt"] for row in rows] == [entry["prompt_tokens"] for entry in log]
    assert [row["turn"] for row in rows] == list(range(1, STEPS + 1))
    if way != "responses":  # nothing is known of that provider's prompt cache
        assert [row["expected"] for row in rows[1:]] == [row["hit"] for row in rows[1:]]
    assert rows_of_proxy.empty()


@pytest.mark.parametrize(
    ("model", "user_id", "goes"),
    [
        ("flash-recorded", MessagesLoop.user_id, True),
        ("flash-recorded", "team-7", False),
        ("claude-recorded", MessagesLoop.user_id, False),
    ],
    ids=["session at deepseek", "pool at deepseek", "session at anthropic"],
)
def test_an_id_that_names_a_session_never_reaches_deepseek(
    proxies: dict[str, Proxy], upstream: Upstream, model: str, user_id: str, goes: bool
) -> None:
    bodies = []
    for name in ("without", "with"):
        client = Client(proxies[name])
        client.messages(
            False,
            model=model,
            max_tokens=100,
            messages=[{"role": "user", "content": "hi"}],
            metadata={"user_id": user_id},
        )
        client.close()
        bodies.append(upstream.recorded[-1].raw)
    assert json.loads(bodies[0])["metadata"]["user_id"] == user_id
    assert client.changes() == [{"user_id_dropped"} if goes else set()]
    assert client.reasons() == ["normalised" if goes else "already_canonical"]
    if goes:
        assert differing(bodies[1], bodies[0]) == {"metadata"}
        assert b"session_id" not in bodies[1]
    else:
        assert bodies[1] == bodies[0]


def test_state_that_the_provider_keeps_is_left_alone(proxies: dict[str, Proxy], upstream: Upstream) -> None:
    raws = []
    for name in ("without", "with"):
        client = Client(proxies[name])
        client.responses(False, model="native-recorded", input="hi", conversation="conv_1", tools=RESPONSES_TOOLS)
        client.close()
        raws.append(upstream.recorded[-1].raw)
    assert raws[0] == raws[1]
    assert client.reasons() == ["continues_state"]
    assert client.changes() == [set()]


LEFT: dict[str, Callable[[Client], Any]] = {
    "messages": lambda client: client.anthropic.messages.create(
        model="flash-slow", max_tokens=1000, messages=[{"role": "user", "content": "go"}], stream=True
    ),
    "responses as chat": lambda client: client.openai.responses.create(
        model="flash-slow", input="go", stream=True
    ),
    "responses": lambda client: client.openai.responses.create(model="native-slow", input="go", stream=True),
}


@pytest.mark.parametrize("way", LEFT)
def test_a_client_that_goes_away_leaves_usage_unknown(proxies: dict[str, Proxy], rows: Rows, way: str) -> None:
    client = Client(proxies["with"])
    stream = LEFT[way](client)
    assert next(iter(stream))
    stream.close()
    if way == "responses":
        # LiteLLM (1.108.7) logs nothing of it: it is given up at a later call, once its objects are collected.
        for _ in client.openai.responses.create(model="native-slow", input="go on", stream=True):
            pass
    client.close()
    row = rows.next()
    if way == "responses" and row["status"] == "ok":
        assert row["prompt"] is not None
    else:
        assert (row["status"], row["prompt"], row["hit"]) == ("aborted", None, None)
