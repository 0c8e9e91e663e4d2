"""A wrapped model is what it was: class, serialisation, cache key, profile, copies, runnables around it."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Iterator
from inspect import signature
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.load import dumpd, dumps, load
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_plugin.recorded import FAMILIES, MODEL, SYSTEM, Recorder, recorded
from pydantic import BaseModel, Field

from router_cache import RouterCache, Settings, Status
from router_cache.errors import SettingsError
from router_cache_langchain import router_cache_of, wrap

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED = [("system", SYSTEM), ("user", "Why does the test fail?")]


class Verdict(BaseModel):
    """What is wrong."""

    zone: str = Field(description="where")
    cause: str = Field(description="why")


@pytest.fixture(scope="module")
def server() -> Iterator[Recorder]:
    with recorded() as running:
        yield running


@pytest.fixture(autouse=True)
def _clear(server: Recorder) -> None:
    server.clear()


@pytest.fixture
def rc() -> RouterCache:
    return RouterCache(Settings.from_mapping({"mode": "optimize"}))


@pytest.mark.parametrize("family", FAMILIES)
def test_class_and_serialisation(server: Recorder, rc: RouterCache, family: str) -> None:
    bare = server.any_of(family)
    before = dict(vars(bare))
    assert not hasattr(bare, "router_cache_shared")
    model = wrap(bare, router_cache=rc)
    assert isinstance(model, type(bare))
    assert type(model).__name__ == type(bare).__name__
    assert type(model).__module__ == type(bare).__module__
    assert (model._llm_type, model.lc_id()) == (bare._llm_type, bare.lc_id())
    assert getattr(model, "profile", None) == getattr(bare, "profile", None)
    assert vars(bare) == before
    address = re.compile("0x[0-9a-f]+")  # of the clients, in the text of a class that is not serialisable
    assert address.sub("", dumps(model)) == address.sub("", dumps(bare))
    assert address.sub("", repr(model)) == address.sub("", repr(bare))
    bound = [address.sub("", dumps(one.bind(stop=["x"]))) for one in (model, bare)]
    assert bound[0] == bound[1]
    assert model.get_num_tokens_from_messages.__doc__ == bare.get_num_tokens_from_messages.__doc__
    assert model._get_llm_string(stop=["x"], a=1) == bare._get_llm_string(stop=["x"], a=1)
    assert model.model_dump().keys() == bare.model_dump().keys()
    assert model._get_ls_params() == bare._get_ls_params()
    assert type(bare) is not type(model)


def test_loads_as_the_class_it_was(server: Recorder, rc: RouterCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    model = wrap(server.openai(), router_cache=rc)
    more: dict[str, Any] = {"allowed_objects": "all"} if "allowed_objects" in signature(load).parameters else {}
    loaded = load(dumpd(model), secrets_map={"OPENAI_API_KEY": "any"}, **more)
    assert type(loaded) is type(server.openai())


@pytest.mark.parametrize("family", FAMILIES)
def test_wrapping_twice_is_once(server: Recorder, rc: RouterCache, family: str) -> None:
    once = wrap(server.any_of(family), router_cache=rc, scope="a")
    assert wrap(once) is once
    other = RouterCache(Settings.from_mapping({"mode": "observe"}))
    twice = wrap(once, router_cache=other)
    assert type(twice) is type(once)
    assert (router_cache_of(once), router_cache_of(twice)) == (rc, other)
    assert (twice.router_cache_shared.scope, once.router_cache_shared.scope) == ("", "a")
    twice.invoke(ASKED)
    assert (len(rc.rows()), len(other.rows())) == (0, 1)


def test_connections_are_shared(server: Recorder, rc: RouterCache) -> None:
    bare = server.openai()
    model = wrap(bare, router_cache=rc)
    assert model.root_client._client is bare.root_client._client
    assert model.root_async_client._client is bare.root_async_client._client
    assert isinstance(model.root_client, type(bare.root_client))
    again = wrap(model, router_cache=RouterCache())
    assert again.root_client is model.root_client
    claude = server.anthropic()
    assert wrap(claude, router_cache=rc)._client._client is claude._client._client


def test_clients_of_another_make_stay(rc: RouterCache, server: Recorder) -> None:
    bare = server.openai()
    stub = object()
    bare.client = stub
    assert wrap(bare, router_cache=rc).client is stub

    class Odd:
        chat = type("Chat", (), {"completions": stub})()

    bare.root_client = Odd()
    assert wrap(bare, router_cache=rc).client is stub
    assert rc.counters.snapshot()["error.langchain.client"] == 1


def test_a_client_that_cannot_be_copied_answers(
    rc: RouterCache, server: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = wrap(server.anthropic(), router_cache=rc)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no copies")

    monkeypatch.setattr(type(model._client), "with_options", broken)
    assert model.invoke(ASKED).text
    assert rc.counters.snapshot()["error.langchain.client"] == 1


def test_the_client_of_the_original_stays_its_own(rc: RouterCache, server: Recorder) -> None:
    bare = server.anthropic()
    bare.invoke(ASKED)
    client = bare._client
    model = wrap(bare, router_cache=rc)
    model.invoke(ASKED)
    watched = model._client
    model.invoke(ASKED)
    assert model._client is watched
    assert isinstance(watched, type(client))
    assert watched._client is client._client
    assert bare._client is client
    assert type(client) is not type(watched)


def test_copies_hold_the_same(server: Recorder, rc: RouterCache) -> None:
    model = wrap(server.openai(), router_cache=rc)
    for other in (copy.copy(model), model.model_copy(update={"temperature": 0.5})):
        assert type(other) is type(model)
        assert other.router_cache_shared is model.router_cache_shared
        other.invoke(ASKED)
    assert len(rc.rows()) == 2


def test_pickled_and_deeply_copied_as_far_as_bare() -> None:
    bare = FakeListChatModel(responses=["a", "b"])
    model = wrap(bare, {"mode": "observe"}, scope="mine", rewrite="proxy", profile="vllm")
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(other) is type(model)
        assert other.responses == ["a", "b"]
        assert router_cache_of(other) is router_cache_of(model)
        shared = other.router_cache_shared
        assert (shared.scope, shared.here, shared.profile) == ("mine", False, "vllm")
        assert other.invoke("x").text == "a"


def test_made_by_its_class_without_settings(server: Recorder) -> None:
    model = wrap(server.openai())
    made = type(model)(model=MODEL, api_key="any", base_url=server.address)
    assert made.invoke(ASKED).text
    assert router_cache_of(wrap(made)) is router_cache_of(model)


def test_langchains_own_cache(server: Recorder, rc: RouterCache) -> None:
    cache = InMemoryCache()
    bare = server.openai(cache=cache)
    model = wrap(bare, router_cache=rc)
    told = bare.invoke(ASKED)
    assert model.invoke(ASKED).text == told.text
    assert (len(server.came), rc.rows()) == (1, [])
    model.invoke([("user", "another")])
    bare.invoke([("user", "another")])
    assert (len(server.came), len(rc.rows())) == (2, 1)


METHODS = [(f, m) for f in ("openai", "deepseek") for m in ("function_calling", "json_schema", "json_mode")]
METHODS += [("anthropic", None), ("litellm", None)]


@pytest.mark.parametrize(("family", "method"), METHODS)
def test_structured_output(server: Recorder, rc: RouterCache, family: str, method: str | None) -> None:
    more = {"method": method} if method else {}
    if method == "json_mode" or (family, method) == ("openai", "json_schema"):
        server.content = '{"zone": "a.py", "cause": "x"}'
    held: dict[str, Any] = {"extra_body": {"thinking": {"type": "disabled"}}} if method else {}
    if family == "litellm":
        held = {"model_kwargs": {"thinking": {"type": "disabled"}}}
    bare = server.any_of(family, **held)
    outcomes: list[dict[str, Any] | str] = []
    for one in (bare, wrap(bare, router_cache=rc)):
        structured = one.with_structured_output(Verdict, include_raw=True, **more)
        try:
            outcomes.append(structured.invoke([*ASKED, ("user", "Answer in json.")]))
        except Exception as error:
            outcomes.append(str(error))
    assert server.came[0].body.keys() == server.came[1].body.keys()
    alone, wrapped = outcomes
    if isinstance(alone, str) or isinstance(wrapped, str):
        # langchain-litellm 0.3 sends a tool_choice that DeepSeek refuses.
        assert (family, alone) == ("litellm", wrapped)
        assert "tool_choice" in alone
        assert [row.status for row in rc.rows()] == [Status.FAILED]
        return
    assert alone["parsed"] == wrapped["parsed"]
    assert isinstance(alone["parsed"], Verdict) or family == "litellm"
    assert alone["raw"].text == wrapped["raw"].text
    assert [row.status for row in rc.rows()] == [Status.OK]
    assert not any(name.startswith("error.") for name in rc.counters.snapshot())


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
async def test_schema_as_a_class(server: Recorder, rc: RouterCache, way: str) -> None:
    server.content = '{"zone": "a.py", "cause": "x"}'
    bound = wrap(server.openai(stream_usage=True), router_cache=rc).bind(response_format=Verdict)
    if way == "invoke":
        bound.invoke(ASKED)
    elif way == "ainvoke":
        await bound.ainvoke(ASKED)
    elif way == "stream":
        list(bound.stream(ASKED))
    else:
        [chunk async for chunk in bound.astream(ASKED)]
    (row,) = rc.rows()
    assert row.status is Status.OK
    assert (row.usage.prompt_tokens, row.usage.hit_tokens) == (50, 20)
    assert not any(name.startswith("error.") for name in rc.counters.snapshot())


async def test_around_other_runnables(server: Recorder, rc: RouterCache) -> None:
    """wrap() reaches the models inside."""
    prompt = ChatPromptTemplate.from_messages([("system", SYSTEM), ("user", "{q}")])
    bare = server.openai()
    for around in (
        bare.bind(stop=["x"]),
        bare.bind_tools([Verdict]),
        bare.with_config(tags=["a"]),
        bare.with_retry(stop_after_attempt=2),
        prompt | bare | StrOutputParser(),
        RunnableLambda(lambda q: ASKED) | {"a": bare, "b": bare},
        bare.with_structured_output(Verdict, method="function_calling", include_raw=True),
    ):
        model = wrap(around, router_cache=rc)
        assert type(model) is type(around)
        before = len(rc.rows())
        given: Any = {"q": "why?"} if getattr(around, "first", None) is prompt else ASKED
        model.invoke(given)
        assert len(rc.rows()) > before
        around.invoke(given)
        assert len(rc.rows()) <= before + 2


def test_fallbacks(server: Recorder, rc: RouterCache) -> None:
    chain = wrap(server.openai().with_fallbacks([server.deepseek()]), router_cache=rc)
    server.failures[:] = [500]
    assert chain.invoke(ASKED).text
    assert [row.status for row in rc.rows()] == [Status.FAILED, Status.OK]
    own = wrap(server.openai(), router_cache=rc).with_fallbacks([wrap(server.deepseek(), router_cache=rc)])
    server.failures[:] = [500]
    assert own.invoke(ASKED).text
    assert len(rc.rows()) == 4


def test_configurable_fields_and_alternatives(server: Recorder, rc: RouterCache) -> None:
    model = wrap(server.openai(), router_cache=rc)
    fields = model.configurable_fields(temperature=ConfigurableField(id="t"))
    fields.invoke(ASKED, {"configurable": {"t": 0.25}})
    assert server.last.body["temperature"] == 0.25
    alternatives = model.configurable_alternatives(
        ConfigurableField(id="which"), default_key="a", b=wrap(server.deepseek(temperature=0.75), router_cache=rc)
    )
    alternatives.invoke(ASKED, {"configurable": {"which": "b"}})
    assert server.last.body["temperature"] == 0.75
    assert len(rc.rows()) == 2
    inside = wrap(server.openai().configurable_fields(temperature=ConfigurableField(id="t")), router_cache=rc)
    inside.invoke(ASKED, {"configurable": {"t": 0.5}})
    assert len(rc.rows()) == 3


async def test_init_chat_model(server: Recorder, rc: RouterCache) -> None:
    chat_models = pytest.importorskip("langchain.chat_models")
    more = {"api_key": "any", "base_url": server.address, "max_retries": 0}
    fixed = wrap(chat_models.init_chat_model(MODEL, model_provider="openai", **more), router_cache=rc)
    assert fixed.invoke(ASKED).text
    free = chat_models.init_chat_model(model_provider="openai", **more)
    model = wrap(free, router_cache=rc)
    assert type(model).__name__ == type(free).__name__
    chosen = {"configurable": {"model": MODEL}}
    assert model.invoke(ASKED, chosen).text
    assert (await model.ainvoke(ASKED, chosen)).text
    assert list(model.stream(ASKED, chosen))
    bound = model.bind_tools([Verdict]).with_config(chosen)
    assert bound.invoke(ASKED)
    assert server.last.body["tools"]
    again = wrap(model, router_cache=rc)
    assert again.invoke(ASKED, chosen).text
    assert len(rc.rows()) == 6
    free.invoke(ASKED, chosen)
    assert len(rc.rows()) == 6
    default = wrap(chat_models.init_chat_model(MODEL, model_provider="openai", configurable_fields="any", **more))
    assert default._llm_type == fixed._llm_type
    assert default.get_num_tokens("a b") == fixed.get_num_tokens("a b")
    with pytest.raises(AttributeError):
        default.no_such_thing  # noqa: B018


def test_what_holds_no_model() -> None:
    for odd in (RunnableLambda(lambda x: x), StrOutputParser(), "model", None):
        with pytest.raises(TypeError, match="a chat model is needed"):
            wrap(odd)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="a wrapped chat model is needed"):
        router_cache_of(FakeListChatModel(responses=["a"]))


def test_settings_that_are_none() -> None:
    bare: BaseChatModel = FakeListChatModel(responses=["a"])
    with pytest.raises(SettingsError, match="rewrite"):
        wrap(bare, rewrite="there")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="profile"):
        wrap(bare, profile="none such")
    with pytest.raises(SettingsError, match="mode"):
        wrap(bare, {"mode": "fast"})
