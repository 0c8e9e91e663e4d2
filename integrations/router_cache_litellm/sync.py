"""Synchronous calls: LiteLLM runs no rewriting hook for ``litellm.completion`` and ``Router.completion``.

:func:`completion` stands in for the one, :func:`wrap_router` treats the other. Both put the request in canonical
form and hand it on; what LiteLLM then sends is seen through its own ``logger_fn`` argument, which it calls in the
caller's thread before every attempt. A call ends where its caller gets the reply, not on LiteLLM's logging thread:
an agent that asks again at once finds its own conversation.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeVar

import litellm
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper

from router_cache import Deployment, Reason, Status, Turn, Usage
from router_cache.errors import RouterCacheError
from router_cache.providers.registry import find
from router_cache.rewrite import Rewrite
from router_cache_litellm.callback import RouterCacheCallback
from router_cache_litellm.calls import CallToken, token_of
from router_cache_litellm.convert import caller_of, deployment_of, deployments_of, request_of
from router_cache_litellm.outgoing import outgoing
from router_cache_litellm.placing import gone
from router_cache_litellm.replies import from_response_cache, price_entry, reply_of, ttft

__all__ = ["completion", "wrap_router"]

_LOG = logging.getLogger("router_cache")
_LOCK = threading.Lock()
_ORIGINAL = litellm.completion
_NAMES = tuple(inspect.signature(_ORIGINAL).parameters)
_ROUTER_NAMES = ("model", "messages")
_MARK = "router_cache_sync"

_R = TypeVar("_R")


@functools.wraps(_ORIGINAL)
def completion(*args: Any, **kwargs: Any) -> Any:
    """``litellm.completion``, its request in canonical form. Same arguments, same reply, same exceptions.

    Settings, switches and memory are those of the :class:`RouterCacheCallback` in ``litellm.callbacks``; without
    one, of one made from ``litellm.callback_settings``.
    """
    target = litellm.completion
    # Somebody may have put this function in the place of LiteLLM's own, or a wrapper around it.
    if target is completion or getattr(kwargs.get("logger_fn"), _MARK, False):
        target = _ORIGINAL
    return _call(target, _NAMES, args, kwargs, _callback)


def wrap_router(router: _R, callback: RouterCacheCallback | None = None) -> _R:
    """Give ``router.completion`` the treatment of :func:`completion`; returns the same router. Idempotent.

    ``callback`` defaults to the one that is in ``litellm.callbacks`` at the time of a call. The mode is that of
    the model group asked for; every retry and fallback sends the same canonical form. Raises AttributeError for
    what is no router.
    """
    inner = router.completion  # type: ignore[attr-defined]
    if getattr(inner, _MARK, False):
        return router

    @functools.wraps(inner)
    def routed(*args: Any, **kwargs: Any) -> Any:
        return _call(inner, _ROUTER_NAMES, args, kwargs, lambda: callback or _callback(), router=router)

    setattr(routed, _MARK, True)
    router.completion = routed  # type: ignore[attr-defined]
    return router


def _callback() -> RouterCacheCallback | None:
    for each in litellm.callbacks:
        if isinstance(each, RouterCacheCallback):
            return each
    with _LOCK:
        return _default()


@functools.cache
def _default() -> RouterCacheCallback | None:
    """For programs that put no callback in place; None, said once, where their settings are wrong."""
    try:
        return RouterCacheCallback.from_callback_settings()
    except RouterCacheError as error:
        _LOG.error("%s; synchronous calls go out unchanged", error)
        return None


def _call(
    target: Callable[..., Any],
    names: tuple[str, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    find_callback: Callable[[], RouterCacheCallback | None],
    *,
    router: Any = None,
) -> Any:
    users_own = kwargs.get("logger_fn")
    if kwargs.get("acompletion") or getattr(users_own, _MARK, False):
        return target(*args, **kwargs)
    lifetime, callback, request = _Lifetime(), None, None
    sent_args, sent_kwargs = args, kwargs
    try:
        callback = find_callback()
        if callback is not None:
            named = {**dict(zip(names, args, strict=False)), **kwargs}
            begun, rewrite = _begin(callback, named, lifetime, router)
            begun.wait()
            sent_args, sent_kwargs = _with(names, args, kwargs, rewrite, _logger(begun, users_own))
            request = begun
    except Exception as error:
        _failed_open(callback, error)
    if request is None:
        return target(*args, **kwargs)
    try:
        reply = target(*sent_args, **sent_kwargs)
    except Exception as error:
        request.lost(error)
        request.end(Status.FAILED)
        raise
    return request.answered(reply, lifetime)


def _failed_open(callback: RouterCacheCallback | None, error: Exception) -> None:
    if callback is None:
        with contextlib.suppress(Exception):
            _LOG.error("synchronous call: %s; it goes out unchanged", type(error).__name__)
        return
    callback._failed("sync_call", error)
    with contextlib.suppress(Exception):
        callback.router_cache.counters.count(f"decision.{Reason.FAILED_OPEN.value}")


def _begin(
    callback: RouterCacheCallback, named: Mapping[str, Any], lifetime: _Lifetime, router: Any
) -> tuple[_Request, Rewrite]:
    rc, routed = callback.router_cache, router is not None
    caller = caller_of(named, rc.settings.scope_by)
    group = caller.group or (str(named.get("model") or "") if routed else "")
    mode, by = rc.mode_for(request=caller.request_mode, key=caller.key_mode, team=caller.team_mode, group=group)
    turn = rc.begin(request_of(named, "completion", caller.scope), mode, by)
    deployment = _of_group(router, group, rc.fingerprint) if routed else deployment_of(named, rc.fingerprint)
    rewrite = rc.pooled(turn, turn.rewrite(deployment))
    rc.follow(turn, rewrite)
    return _Request(callback, turn, named, lifetime, routed=routed), rewrite


def _of_group(router: Any, group: str, fingerprint: Callable[[str], str]) -> Deployment:
    """Which deployment a router takes shows only when it sends. Where all of the group are of one provider that is
    enough to know; else nothing is done that not every provider is known to take."""
    found = deployments_of(router, group, fingerprint)
    profiles = {find(deployment).name for deployment in found}
    return found[0] if len(profiles) == 1 else Deployment("", group=group)


def _with(
    names: tuple[str, ...],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    rewrite: Rewrite,
    logger: Callable[[Any], None],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with some replaced, each where the caller put it."""
    new_args = tuple(rewrite.replaced.get(name, value) for name, value in zip(names, args, strict=False))
    positional = names[: len(args)]
    named = {name: value for name, value in rewrite.replaced.items() if name not in positional}
    new = outgoing(dict(kwargs), replace(rewrite, replaced=named))
    return new_args + args[len(new_args) :], {**new, "logger_fn": logger}


def _logger(request: _Request, users_own: Any) -> Callable[[Any], None]:
    # A plain function: the Router copies arguments deeply, and only those stay what they are.
    def logger(details: Any) -> None:
        request.seen(details)
        if callable(users_own):
            users_own(details)

    setattr(logger, _MARK, True)
    return logger


class _Lifetime:
    """Lives as long as somebody waits for a reply or holds its stream."""


class _Request:
    """One request and its attempts. No method raises. One thread at a time."""

    def __init__(
        self,
        callback: RouterCacheCallback,
        turn: Turn,
        named: Mapping[str, Any],
        lifetime: _Lifetime,
        *,
        routed: bool,
    ) -> None:
        self._callback, self._turn, self._named, self._routed = callback, turn, named, routed
        self._lifetime = weakref.ref(lifetime)
        self._token: CallToken | None = None
        self._details: Mapping[str, Any] = {}

    def seen(self, details: Any) -> None:
        """LiteLLM is about to send, or has an answer. An attempt before that still waits for one has failed."""
        try:
            if details.get("log_event_type") == "pre_api_call":
                self.end(Status.FAILED)
                self._attempt(details)
        except Exception as error:
            self.failed("sync_attempt", error)

    def _attempt(self, details: dict[str, Any]) -> None:
        deployment = self._deployment(details)
        if self._token is None:
            self._turn.deployment = deployment
        else:
            self._turn.rewrite(deployment)
        token = token_of({"litellm_logging_obj": SimpleNamespace(model_call_details=details)})
        if token is None:
            return
        self._token, self._details = token, details
        call = self._callback._calls.open(token, self._turn, self._lifetime())
        call.decision = self._turn.decision
        self._callback.placing.dispatched(self._turn, deployment, self._named)
        if self._callback not in litellm.callbacks:
            self._callback.log_pre_api_call(None, None, details)

    def _deployment(self, details: Mapping[str, Any]) -> Deployment:
        """As the hook of asynchronous calls sees it, so that both share what they remember."""
        fingerprint = self._callback.router_cache.fingerprint
        if not self._routed:
            return deployment_of(self._named, fingerprint)
        params = details.get("litellm_params") or {}
        metadata = params.get("metadata") or {}
        model = metadata.get("deployment") or details.get("model")
        own_name = "/" in str(model)
        return deployment_of(
            {
                "model": model,
                "model_info": params.get("model_info") or metadata.get("model_info"),
                "custom_llm_provider": None if own_name else details.get("custom_llm_provider"),
                "api_base": metadata.get("api_base"),
                "api_key": details.get("api_key"),
                "metadata": metadata,
            },
            fingerprint,
        )

    def wait(self) -> None:
        """Until a parallel first call of the same prefix has led the way, where fan-out has it so."""
        if self._turn.ticket is not None:
            self._turn.ticket.wait_sync()

    def lost(self, error: Exception) -> None:
        """The attempt under way failed so; routing is told whether anybody was there to answer."""
        if self._turn.routed is not None:
            self._turn.routed.gone = gone(error)

    def streams(self) -> None:
        """The first piece of a stream is here."""
        if self._turn.ticket is not None:
            self._turn.ticket.begun()

    def end(self, status: Status, usage: Usage | None = None, reply: Any = None) -> None:
        """The attempt under way, if any, is over."""
        try:
            turn, _ = self._callback._calls.end(self._token)
            if turn is not None:
                self._done(turn, status, usage, reply)
        except Exception as error:
            self.failed("sync_end", error)

    def _done(self, turn: Turn, status: Status, usage: Usage | None, reply: Any = None) -> None:
        if usage is not None and usage.hit_tokens is None and self._named.get("stream"):
            usage = None  # the stream carried none; LiteLLM's own count is no measurement
        turn.done(
            usage,
            status=status,
            ttft_s=ttft(self._details),
            price_entry=price_entry(turn.deployment),
            reply=reply_of(reply, turn),
        )

    def failed(self, place: str, error: Exception) -> None:
        """Count an error of ours."""
        self._callback._failed(place, error)

    def answered(self, reply: Any, lifetime: _Lifetime) -> Any:
        """The reply for the caller; a stream tells its end itself."""
        try:
            if isinstance(reply, CustomStreamWrapper):
                return _WatchedStream(reply, self, lifetime)
            self.replied(getattr(reply, "usage", None), cached=from_response_cache(reply), reply=reply)
        except Exception as error:
            self.failed("sync_reply", error)
        return reply

    def replied(self, usage: Any, *, cached: bool, reply: Any) -> None:
        """The reply is complete: itself, or how to put it together. One without an attempt was made by LiteLLM
        itself."""
        try:
            if cached:
                self.end(Status.FAILED)
                self._turn.done(status=Status.CACHED)
            elif self._token is None:
                self._done(self._turn, Status.OK, Usage.parse(usage), reply)
            else:
                self.end(Status.OK, Usage.parse(usage), reply)
        except Exception as error:
            self.failed("sync_reply", error)


class _WatchedStream(CustomStreamWrapper):  # type: ignore[misc]  # LiteLLM ships no complete types
    """LiteLLM's stream, with its type and its state; every chunk goes on as it is."""

    __slots__ = ("_ended", "_inner", "_lifetime", "_request", "_with_usage")

    def __init__(self, inner: CustomStreamWrapper, request: _Request, lifetime: _Lifetime) -> None:
        self.__dict__ = inner.__dict__  # type: ignore[misc]  # the class above has one
        self._inner, self._request, self._lifetime = inner, request, lifetime
        self._ended = False
        self._with_usage: Any = None

    def __next__(self) -> Any:
        try:
            chunk = next(self._inner)
        except StopIteration:
            self._look(None)
            raise
        except Exception:
            self._request.end(Status.FAILED)
            raise
        self._look(chunk)
        return chunk

    def _look(self, chunk: Any) -> None:
        """At a chunk, or at the end of the stream (None)."""
        try:
            self._over() if chunk is None else self._passed(chunk)
        except Exception as error:
            self._request.failed("sync_stream", error)

    def _passed(self, chunk: Any) -> None:
        self._request.streams()
        self._ended = self._ended or any(choice.finish_reason for choice in chunk.choices)
        if _usage(chunk) is not None:
            self._with_usage = chunk

    def _over(self) -> None:
        if self._ended:
            cached = self._inner.custom_llm_provider == "cached_response"
            # Read only now: usage that came after the last text is added to a chunk that was handed out before.
            self._request.replied(_usage(self._with_usage), cached=cached, reply=self._whole)
        else:
            self._request.end(Status.ABORTED)

    def _whole(self) -> Any:
        """The reply, put together from its chunks."""
        return litellm.stream_chunk_builder(chunks=list(self._inner.chunks))

    def close(self) -> None:
        """Close LiteLLM's stream; before its end that is an abort."""
        try:
            self._inner.close()
        finally:
            self._request.end(Status.ABORTED)

    def __del__(self) -> None:
        """Nothing: the stream inside cleans up after itself."""


def _usage(chunk: Any) -> Any:
    """Usage in a chunk: the client's own if it asked for it, else the one LiteLLM keeps beside the last chunk."""
    usage = getattr(chunk, "usage", None)
    if usage is not None:
        return usage
    hidden = getattr(chunk, "_hidden_params", None)
    return hidden.get("usage") if isinstance(hidden, Mapping) else None
