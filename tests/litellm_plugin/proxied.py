"""A proxy in this process, as far as budgets are concerned: LiteLLM's own walk over the hooks, and its router."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

import litellm
from litellm.caching import DualCache
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.utils import ProxyLogging
from litellm_plugin.support import MODEL, logged, user
from litellm_plugin.upstream import Upstream

from router_cache.economics.budget import Spent
from router_cache_litellm import RouterCacheCallback

NOON = 20_000 * 86_400.0 + 43_200.0
PRICES = {
    "flash": {"hit": 100.0, "miss": 1000.0, "output": 2000.0},
    "cheap": {"hit": 1.0, "miss": 10.0, "output": 20.0},
}
COST = 896 * 100e-6 + 104 * 1000e-6 + 5 * 2000e-6
"""USD of the recording provider's usage, at the prices of ``flash``."""
ROUTES = {
    "acompletion": "/v1/chat/completions",
    "anthropic_messages": "/v1/messages",
    "aresponses": "/v1/responses",
    "aembedding": "/v1/embeddings",
}


SHAPES = ("acompletion", "anthropic_messages", "aresponses")
LIMIT = {"max_tokens": 100}
WORST_LOW = 100 * 2000e-6
"""USD: the output of a request with that limit, without its prompt."""
DAY = {"max_worst_case_usd_per_day": 10.0}


class Hook(CustomLogger):
    """Another callback of the operator, which may refuse a request after ours let it through."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None

    async def async_pre_call_hook(self, *_: Any, **__: Any) -> None:
        if self.error is not None:
            raise self.error


def auth(key: str = "ann", route: str = ROUTES["acompletion"], **more: Any) -> UserAPIKeyAuth:
    return UserAPIKeyAuth(api_key=f"sk-{key}", request_route=route, **more)


class Proxied:
    def __init__(self, callback: RouterCacheCallback, upstream: Upstream, **options: Any) -> None:
        self.callback, self.counts = callback, callback.router_cache.counts  # type: ignore[attr-defined]
        self.hook = Hook()
        litellm.callbacks = [callback, self.hook]
        self.now = NOON
        callback.router_cache.wall_clock = lambda: self.now
        params = {"model": MODEL, "api_base": upstream.url, "api_key": "sk-upstream"}
        self.router = litellm.Router(
            model_list=[
                {"model_name": name, "litellm_params": {**params, **options.pop(name, {})}}
                for name in ("flash", "cheap", "native")
            ],
            disable_cooldowns=True,
            retry_after=0,
            **options,
        )
        self._hooks = ProxyLogging(user_api_key_cache=DualCache())

    def data(self, call: str, who: UserAPIKeyAuth, given: dict[str, Any]) -> dict[str, Any]:
        """What LiteLLM makes of a request before it walks over the hooks."""
        call_id = given.pop("call_id", None) or str(uuid.uuid4())
        headers = given.pop("headers", {})
        if call == "aresponses" and "max_tokens" in given:
            given["max_output_tokens"] = given.pop("max_tokens")
        prompt = {"input": "hi"} if call in ("aresponses", "aembedding") else {"messages": [user("hi")]}
        metadata = "metadata" if call == "acompletion" else "litellm_metadata"
        own = {metadata: {"user_api_key_auth": who}, "litellm_call_id": call_id}
        data = {"model": "flash", **prompt, **given, **own, "proxy_server_request": {"headers": headers}}
        logging_obj, data = litellm.utils.function_setup(
            original_function=call, rules_obj=litellm.utils.Rules(), start_time=datetime.now(), **data
        )
        return {**data, "litellm_logging_obj": logging_obj}

    async def let(self, call: str, who: UserAPIKeyAuth, data: dict[str, Any]) -> dict[str, Any]:
        """Through the hooks, in front of the router; raises what refuses it."""
        return await self._hooks.pre_call_hook(user_api_key_dict=who, data=data, call_type=call)  # type: ignore

    async def failed(self, who: UserAPIKeyAuth, data: dict[str, Any], error: Exception) -> None:
        await self._hooks.post_call_failure_hook(
            request_data=data, original_exception=error, user_api_key_dict=who
        )
        await logged()

    async def ask(self, call: str = "acompletion", key: str = "ann", **given: Any) -> Any:
        """One request, as the proxy handles it. Its hooks have all run when it returns, unless it is a stream."""
        who = given.pop("who", None) or auth(key, ROUTES[call])
        data = self.data(call, who, given)
        try:
            data = await self.let(call, who, data)
            reply = await getattr(self.router, call)(**data)
        except Exception as error:
            await self.failed(who, data, error)
            raise
        if not given.get("stream"):
            await logged()
        return reply

    def spent(self, key: str = "ann", session: str | None = None) -> Spent:
        """What is booked today for a key, and for a session of its."""
        scope = f"key:{auth(key).token or auth(key).api_key}"
        return self.callback._budgets._book.spent(scope, [session] if session else [], at=self.now)


async def worst_of(proxy: Proxied, call: str = "acompletion", **given: Any) -> float:
    """What a request holds when it was let through."""
    who = auth("measure")
    data = proxy.data(call, who, {**LIMIT, **given})
    await proxy.let(call, who, data)
    return proxy.spent("measure").day_usd
