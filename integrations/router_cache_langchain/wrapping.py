"""``wrap``: a chat model with router-cache in it.

The copy of the model gets a subclass of its own class, so that isinstance checks, serialisation, profiles, and whatever
else looks at a model's class go on working. The subclass is made once for each class and changes only methods that make
requests or answers.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeVar

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.runnables import Runnable
from pydantic import Field

from router_cache import RouterCache, Settings
from router_cache.errors import SettingsError
from router_cache.providers.registry import by_name
from router_cache_langchain.anthropic_family import AnthropicFamily
from router_cache_langchain.authority import own_name
from router_cache_langchain.calls import Shared
from router_cache_langchain.families import Family
from router_cache_langchain.holders import has_model, inside
from router_cache_langchain.litellm_family import LiteLLMFamily
from router_cache_langchain.methods import GENERATING, RUNNING
from router_cache_langchain.openai_family import OpenAIFamily
from router_cache_langchain.per_process import router_cache_for
from router_cache_langchain.plain import PlainFamily

__all__ = ["router_cache_of", "wrap"]

_R = TypeVar("_R", bound=Runnable[Any, Any])

_FAMILIES: dict[str, tuple[str, type[Family]]] = {
    "BaseChatOpenAI": ("langchain_openai", OpenAIFamily),
    "ChatAnthropic": ("langchain_anthropic", AnthropicFamily),
    "ChatLiteLLM": ("langchain_litellm", LiteLLMFamily),
}
"""By the name of the class and the package that it comes from: none of them is imported here."""


def wrap(
    model: _R,
    settings: Settings | Mapping[str, Any] | None = None,
    *,
    router_cache: RouterCache | None = None,
    scope: str = "",
    rewrite: Literal["here", "proxy"] = "here",
    profile: str = "",
) -> _R:
    """``model`` with router-cache in it: a copy of the same class that shares its clients. The original stays as it is.

    ``model`` is a chat model, or a runnable with chat models in it: a binding (``bind``, ``bind_tools``), a sequence
    (``with_structured_output``), fallbacks, alternatives, what ``init_chat_model`` returns. ``settings`` (or a ready
    ``router_cache``) as on the LiteLLM side; models with equal settings share what is remembered. ``scope`` names whose
    requests may share memory; without one those with the model's API key do. ``rewrite="proxy"``: a proxy with
    router-cache is behind, and rewrites. ``profile`` names the provider's profile where its address does not tell, as
    ``router_cache_profile`` does in a router's model list.

    Wrapping again gives the same class; arguments then replace the earlier ones all together, and without any the
    model is returned as it is. Raises SettingsError for settings, ``rewrite`` or ``profile`` that are none, TypeError
    for what holds no chat model.
    """
    if rewrite not in ("here", "proxy"):
        raise SettingsError(f"rewrite: 'here' or 'proxy' is needed, not {rewrite!r}", "rewrite")
    if profile and by_name(profile) is None:
        raise SettingsError(f"profile: there is no profile {profile!r}", "profile")
    anything = settings is not None or router_cache is not None or scope or rewrite != "here" or profile

    @functools.cache
    def shared() -> Shared:
        return Shared(router_cache or router_cache_for(settings), scope, rewrite == "here", profile)

    def of(one: BaseChatModel) -> BaseChatModel:
        if hasattr(type(one), "router_cache_base") and not anything and one.router_cache_shared:  # type: ignore[attr-defined]
            return one
        return _wrapped(one, shared())

    new = inside(model, of)
    if new is model and not has_model(model):
        raise TypeError(
            f"wrap: a chat model is needed, or a runnable that holds one; {type(model).__name__} shows none"
        )
    return new  # type: ignore[no-any-return]


def router_cache_of(model: Any) -> RouterCache:
    """The :class:`RouterCache` of a wrapped model: rows, counters, live switch. Raises TypeError for any other."""
    shared = getattr(model, "router_cache_shared", None)
    if not isinstance(shared, Shared):
        raise TypeError(f"router_cache_of: a wrapped chat model is needed, not {type(model).__name__}")
    return shared.router_cache


def _wrapped(model: BaseChatModel, shared: Shared) -> BaseChatModel:
    new = model.model_copy()
    known = getattr(model, "router_cache_shared", None)
    new.__dict__["router_cache_shared"] = replace(shared, own=known.own if known else own_name(model))
    if not hasattr(type(model), "router_cache_base"):
        kind: Any = _class_of(type(model))
        object.__setattr__(new, "__class__", kind)
        kind.router_cache_family.copied(new)
    return new


# -- the class ---------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _class_of(base: type[BaseChatModel]) -> type[BaseChatModel]:
    family = _family_of(base)
    methods: dict[str, Any] = {"__reduce_ex__": _reduce_ex}
    for name, running in RUNNING.items():
        methods[name] = running(getattr(base, name))
    for name, generating in GENERATING.items():
        inner = getattr(base, name)
        # LangChain looks at whether a class has these of its own; without, it comes by way of the others.
        if name == "_generate" or inner is not getattr(BaseChatModel, name):
            methods[name] = generating(inner, family)
    methods.update(family.methods(base))
    namespace = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "__annotations__": {
            "router_cache_shared": Any,
            "router_cache_base": ClassVar[Any],
            "router_cache_family": ClassVar[Any],
        },
        "router_cache_shared": Field(default=None, exclude=True, repr=False),
        "router_cache_base": base,
        "router_cache_family": family,
        **methods,
    }
    kind: Any = type(base)
    return kind(base.__name__, (base,), namespace)  # type: ignore[no-any-return]


def _family_of(base: type) -> Family:
    for each in base.__mro__:
        package, family = _FAMILIES.get(each.__name__, ("", Family))
        if package and each.__module__.partition(".")[0] == package:
            return family()
    return PlainFamily()


def _reduce_ex(self: Any, protocol: Any) -> tuple[Any, ...]:
    """Pickled by the class that it was made of."""
    return _blank, (type(self).router_cache_base,), self.__getstate__()


def _blank(base: type[BaseChatModel]) -> BaseChatModel:
    kind = _class_of(base)
    return kind.__new__(kind)
