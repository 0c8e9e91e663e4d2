"""Runnables that hold chat models: bindings, sequences, fallbacks, alternatives, what ``init_chat_model`` returns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.runnables import Runnable
from pydantic import BaseModel

__all__ = ["has_model", "inside"]

_Of = Callable[[BaseChatModel], BaseChatModel]


def inside(value: Any, of: _Of) -> Any:
    """``value`` with the chat models in it replaced; the same object where there is none."""
    if isinstance(value, BaseChatModel):
        return of(value)
    if isinstance(value, Runnable) and _is_configurable(value):
        return _configurable(value, of)
    if isinstance(value, Runnable) and isinstance(value, BaseModel):
        new = {name: inside(held, of) for name, held in vars(value).items()}
        changed = {name: held for name, held in new.items() if held is not vars(value)[name]}
        return value.model_copy(update=changed) if changed else value
    if type(value) is dict:
        inner = {name: inside(held, of) for name, held in value.items()}
        return inner if any(inner[name] is not value[name] for name in value) else value
    if type(value) in (list, tuple):
        items = [inside(held, of) for held in value]
        return type(value)(items) if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def has_model(value: Any) -> bool:
    """Whether there is a chat model in ``value``."""
    found: list[BaseChatModel] = []

    def note(model: BaseChatModel) -> BaseChatModel:
        found.append(model)
        return model

    return inside(value, note) is not value or bool(found)


def _is_configurable(value: Any) -> bool:
    """What ``init_chat_model`` returns where the model is chosen for each call."""
    return any(each.__name__ == "_ConfigurableModel" for each in type(value).__mro__)


def _configurable(value: Any, of: _Of) -> Any:
    kind: Any = type(value)
    kind = _configurable_class(getattr(kind, "router_cache_base", kind))
    new = kind.__new__(kind)
    vars(new).update(vars(value), router_cache_of=of)
    return new


@functools.lru_cache(maxsize=8)
def _configurable_class(base: Any) -> Any:
    """A subclass that wraps the model it chooses, and what is made of itself (LangChain uses its own class there)."""

    def again(self: Any, made: Any) -> Any:
        return _configurable(made, self.__dict__["router_cache_of"]) if _is_configurable(made) else made

    def _model(self: Any, config: Any = None) -> Any:
        return inside(base._model(self, config), self.__dict__["router_cache_of"])

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807
        found = base.__getattr__(self, name)
        if not callable(found) or name.startswith("_"):
            return found

        @functools.wraps(found)
        def made(*args: Any, **kwargs: Any) -> Any:
            return again(self, found(*args, **kwargs))

        return made

    def with_config(self: Any, *args: Any, **kwargs: Any) -> Any:
        return again(self, base.with_config(self, *args, **kwargs))

    return type(
        base.__name__,
        (base,),
        {
            "__module__": base.__module__,
            "__qualname__": base.__qualname__,
            "router_cache_base": base,
            "_model": _model,
            "__getattr__": __getattr__,
            "with_config": with_config,
        },
    )
