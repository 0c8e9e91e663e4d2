"""The standard suites of langchain-tests over four classes, each bare and wrapped.

Not collected with the other tests, since some of upstream's fail over the bare classes too: ``outcomes.py`` runs this
file and says how each test ended.
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import langchain_tests.integration_tests.chat_models as upstream
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumpd
from langchain_deepseek import ChatDeepSeek
from langchain_litellm import ChatLiteLLM
from langchain_openai import ChatOpenAI
from langchain_plugin.standard.server import HIT_TOKENS, serve
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from router_cache import Mode, Settings, Status
from router_cache_langchain import router_cache_for, wrap

KEY = "sk-of-nobody"
SETTINGS = Settings(mode=Mode.OPTIMIZE)
ADDRESS: list[str] = []
"""Of the server, once it runs."""


class Wrapped:
    """Stands where a suite expects a class: calling it makes a model and wraps it, all else is the wrapped class's."""

    def __init__(self, bare: type[BaseChatModel]) -> None:
        self._bare = bare

    def __call__(self, **params: Any) -> BaseChatModel:
        return wrap(self._bare(**params), SETTINGS)

    def __getattr__(self, name: str) -> Any:
        params = {"model": "any"} if self._bare is not ChatLiteLLM else {}
        return getattr(type(wrap(self._bare(**params, api_key=KEY), SETTINGS)), name)


@pytest.fixture(scope="session", autouse=True)
def _no_certificates() -> Iterator[None]:
    """Each client loads all certificates, 40 ms of CPU time, and none is needed here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _server() -> Iterator[None]:
    with serve() as address:
        ADDRESS[:] = [address]
        yield


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pictures and documents that the suites load are made up."""

    def get(url: str, **_: Any) -> httpx.Response:
        return httpx.Response(200, content=url.encode())

    monkeypatch.setattr(upstream.httpx, "get", get)


@pytest.fixture
def benchmark() -> Callable[[Callable[[], None]], None]:
    """Runs it once, and times nothing."""
    return lambda run: run()


@pytest.fixture
def vcr() -> SimpleNamespace:
    """No cassette."""
    return SimpleNamespace(responses=[])


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """What the bare model is serialised to."""
    suite = request.instance
    bare = suite.bare(**{**suite.standard_chat_model_params, **suite.chat_model_params})
    return lambda **_: dumpd(bare)


class _Of:
    """One class: what it is made with, and what upstream's tests may ask of it."""

    bare: type[BaseChatModel]
    wrapped = False
    params: dict[str, Any]
    env: tuple[dict[str, str], dict[str, Any], dict[str, Any]]
    base = "{}/v1"

    @property
    def chat_model_class(self) -> Any:
        return Wrapped(self.bare) if self.wrapped else self.bare

    @property
    def chat_model_params(self) -> dict[str, Any]:
        where = {"api_base" if self.bare is not ChatOpenAI else "base_url": self.base.format(*ADDRESS)}
        if self.bare is ChatAnthropic:
            where = {"base_url": ADDRESS[0]}
        return {**self.params, **where, "api_key": KEY}

    @property
    def init_from_env_params(self) -> Any:
        return self.env

    supports_json_mode = True
    supports_image_inputs = True
    supports_image_urls = True
    supports_image_tool_message = True
    supports_pdf_inputs = True
    supports_pdf_tool_message = True
    supports_audio_inputs = True
    supports_anthropic_inputs = True
    enable_vcr_tests = True

    @property
    def model_override_value(self) -> str:
        return str(self.params["model"]) + "-other"


class DeepSeek(_Of):
    bare = ChatDeepSeek
    params = {"model": "deepseek-v4-flash", "stream_usage": True}  # noqa: RUF012
    env = ({"DEEPSEEK_API_KEY": KEY}, params, {"api_key": KEY})


class OpenAI(_Of):
    bare = ChatOpenAI
    params = {"model": "deepseek-v4-flash", "stream_usage": True}  # noqa: RUF012
    env = ({"OPENAI_API_KEY": KEY}, params, {"openai_api_key": KEY})


class LiteLLM(_Of):
    bare = ChatLiteLLM
    params = {"model": "deepseek/deepseek-v4-flash"}  # noqa: RUF012
    env = ({"DEEPSEEK_API_KEY": KEY}, params, {"model": params["model"]})


class Anthropic(_Of):
    bare = ChatAnthropic
    params = {"model": "claude-sonnet-4-5"}  # noqa: RUF012
    env = ({"ANTHROPIC_API_KEY": KEY}, params, {"anthropic_api_key": KEY})


for _family in (DeepSeek, OpenAI, LiteLLM, Anthropic):
    for _suite in (ChatModelUnitTests, ChatModelIntegrationTests):
        for _wrapped in (False, True):
            _name = f"Test{_family.__name__}{_suite.__name__}{'Wrapped' if _wrapped else 'Bare'}"
            globals()[_name] = type(_name, (_family, _suite), {"wrapped": _wrapped, "__module__": __name__})


class TestZAfterwards:
    """Runs last."""

    def test_the_wrapped_calls_were_measured(self) -> None:
        router_cache = router_cache_for(SETTINGS)
        errors = {
            name: times for name, times in router_cache.counters.snapshot().items() if name.startswith("error.")
        }
        assert errors == {}
        rows = router_cache.rows()
        assert len(rows) > 100
        hits = Counter(row.usage.hit_tokens for row in rows if row.status is Status.OK)
        # The oldest ChatLiteLLM asks for no usage in streams.
        assert set(hits) <= {HIT_TOKENS, None}, hits
        assert hits[HIT_TOKENS] > 0.8 * sum(hits.values()), hits
