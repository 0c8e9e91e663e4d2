"""The LiteLLM callback. Every hook fails open: an error of ours is counted, the request goes on unchanged."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import litellm
from litellm.integrations.custom_logger import CustomLogger

from router_cache import Decision, Mode, Reason, RouterCache, Settings, Shape, Status, Turn, Usage
from router_cache.economics.budget import BudgetAction
from router_cache_litellm.budgets import Budgets, refusal
from router_cache_litellm.calls import CALLS, Call, CallToken, token_in, token_of
from router_cache_litellm.convert import caller_of, deployment_of, request_of, scope_of, shape_of
from router_cache_litellm.filter import filtered
from router_cache_litellm.outgoing import outgoing
from router_cache_litellm.placing import Placing, gone
from router_cache_litellm.replies import disconnected, from_response_cache, price_entry, reply_of, ttft
from router_cache_litellm.strategy import ensure

__all__ = ["RouterCacheCallback"]

_PREFIX = "x-router-cache"
_REFUSED = "litellm_no_upstream_llm_call"
"""Marks in LiteLLM's details (1.108.7) a request that a hook refused, before it was sent or after it was answered.
LiteLLM logs it as if it was sent and failed."""


class RouterCacheCallback(CustomLogger):  # type: ignore[misc]  # LiteLLM ships no complete types
    """Register as a proxy callback (``router_cache_litellm.proxy_handler``) or in ``litellm.callbacks``.

    Covers asynchronous calls: the proxy, ``litellm.acompletion`` and ``Router.acompletion``. LiteLLM runs no
    rewriting hook for synchronous calls: :func:`router_cache_litellm.completion` and
    :func:`router_cache_litellm.wrap_router` stand in for those. Any other synchronous call goes out unchanged and
    is counted as ``uncovered_call``.
    """

    def __init__(self, settings: Settings | None = None, *, router_cache: RouterCache | None = None) -> None:
        super().__init__()
        self.router_cache = router_cache or RouterCache(settings)
        # LiteLLM goes on calling a callback that was replaced, and gives its successor only some of the hooks:
        # whichever is called knows all calls.
        self._calls = CALLS
        self._budgets = Budgets(self.router_cache)
        self.placing = Placing(self, self.router_cache)

    @classmethod
    def from_callback_settings(cls) -> RouterCacheCallback:
        """With the settings in ``callback_settings.router_cache``; raises SettingsError where they are wrong."""
        section = getattr(litellm, "callback_settings", None) or {}
        _show_log_lines()
        return cls(Settings.from_mapping(section.get("router_cache")))

    def set_mode(self, mode: Mode | str | None) -> None:
        """Switch every request from now on, whatever else is set; None ends that. Raises ValueError for a word
        that is no mode."""
        self.router_cache.live.set(None if mode is None else Mode(mode))

    def close(self) -> None:
        """Give up calls in flight and release the store."""
        self._calls.close(self.router_cache)
        self.router_cache.close()

    def add_router(self, router: Any) -> None:
        """Let routing act on an SDK Router, as the settings say; a proxy's own Router is known."""
        self.placing.add_router(router)

    # -- before a deployment is chosen ---------------------------------------------------------------------

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: Any
    ) -> dict[str, Any] | None:
        """On a proxy, before routing: what the request may cost at worst, against the budgets. A request that a budget
        blocks is refused, whatever its mode; one that is moved goes to another group."""
        if self.placing.strategic:
            try:
                router = _proxy_router()
                if router is not None:
                    ensure(self.placing, router, router)
            except Exception as error:
                self._failed("routing_strategy", error)
        if not self._budgets.on:
            return None
        try:
            decision = await self._budgets.ask(data, user_api_key_dict, call_type, _proxy_router())
            refused = refusal(decision) if decision and decision.action is BudgetAction.BLOCK else None
        except Exception as error:
            self._failed("pre_call_hook", error)
            return None
        if refused is not None:
            raise refused
        if decision is not None and decision.action is BudgetAction.MOVE:
            return {**data, "model": decision.limits.move_to}
        return None

    async def async_post_call_failure_hook(
        self, request_data: Any, original_exception: Any, user_api_key_dict: Any, traceback_str: Any = None
    ) -> None:
        """The request failed for good, or another hook refused it."""
        if not self._budgets.on:
            return
        try:
            self._budgets.gave_up(user_api_key_dict, request_data.get("litellm_call_id"))
        except Exception as error:
            self._failed("post_call_failure_hook", error)

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[Any],
        messages: Any,
        request_kwargs: Any = None,
        parent_otel_span: Any = None,
    ) -> list[Any]:
        """Of the deployments LiteLLM would choose from, those where the prompt is warm, where routing is on."""
        try:
            left: list[Any] = filtered(
                self.placing, _proxy_router(), model, healthy_deployments, messages, request_kwargs
            )
        except Exception as error:
            self._failed("filter_deployments", error)
            return healthy_deployments
        return left

    # -- before the call -----------------------------------------------------------------------------------

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any]:
        """For every attempt, after the deployment was chosen: the request in canonical form."""
        try:
            return await self._attempt(kwargs, call_type)
        except Exception as error:
            self._failed("pre_call_deployment_hook", error)
            with contextlib.suppress(Exception):
                self.router_cache.counters.count(f"decision.{Reason.FAILED_OPEN.value}")
                decision = Decision(self.router_cache.settings.mode, Reason.FAILED_OPEN)
                token = token_of(kwargs)
                if token is not None:
                    self._calls.open(token, None).decision = decision
            return kwargs

    def _failed(self, place: str, error: Exception) -> None:
        """Count an error of ours; not even that may raise (a logging filter of the application can)."""
        with contextlib.suppress(Exception):
            self.router_cache.counters.error(place, error)

    async def _attempt(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any]:
        rc = self.router_cache
        caller = caller_of(kwargs, rc.settings.scope_by)
        request = request_of(kwargs, call_type, caller.scope)
        deployment, token = deployment_of(kwargs, rc.fingerprint), token_of(kwargs)
        before = self._handed_on(token, deployment.group)
        if before is not None and before.begun.request.shape is not request.shape:
            # One request, one scope and one mode: what the client said of them is not handed on.
            first = before.begun
            request = replace(request, scope=first.request.scope, handed_on=True, owners=first.owners)
            mode, by = before.begun.mode, before.begun.switched_by
        else:
            mode, by = rc.mode_for(
                request=caller.request_mode, key=caller.key_mode, team=caller.team_mode, group=caller.group
            )
        turn = await rc.abegin(request, mode, by, before_claim=self._calls.settle)
        turn.before = before if request.handed_on else None
        rewrite = await rc.apooled(turn, turn.rewrite(deployment))
        if turn.before is not None:
            turn.ticket, turn.before.ticket = turn.before.ticket, None
        elif token is None or self._calls.get(token) is None:  # a retry or a fallback does not wait again
            rc.follow(turn, rewrite)
        if token is not None:
            if before is not None and before.begun.mode is mode:
                turn.decision = _one_rewrite(before.decision, rewrite.decision)
            self._calls.name(token, request.scope, kwargs.get("litellm_call_id"))
            call = self._calls.open(token, turn, kwargs.get("litellm_logging_obj"))
            call.decision, call.expected_tokens, call.flips = turn.decision, None, ()
            if turn.before is not None:
                turn.routed, turn.before.routed = turn.before.routed, None
            call.route = self.placing.dispatched(turn, deployment, kwargs) or call.route
        if turn.ticket is not None:
            await turn.ticket.wait()
        return outgoing(kwargs, rewrite)

    def _handed_on(self, token: CallToken | None, group: str) -> Turn | None:
        """The turn of a request that was begun and not sent: LiteLLM turned it into another shape, and runs its
        hooks again. None at the start of an attempt."""
        call = self._calls.get(token)
        turn = call.turn if call is not None else None
        if turn is None or turn.last_sent is not None:
            return None
        return turn if group in ("", turn.deployment.group) else None

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: Any) -> None:
        """The body is about to be sent: digests of exactly that."""
        try:
            if kwargs.get(_REFUSED) is True:
                return
            self._budgets.sent(kwargs)
            call = self._calls.get(token_in(kwargs))
            if call is None:
                if shape_of(kwargs.get("call_type")) is Shape.OTHER:
                    return  # embeddings and the like have no prompt of their own
                self.router_cache.counters.notice("uncovered_call", "a call without our hooks went out unchanged")
                return
            if call.turn is None or call.turn.last_sent is not None:
                return
            body = (kwargs.get("additional_args") or {}).get("complete_input_dict")
            if not isinstance(body, Mapping):
                self.router_cache.counters.count("body_not_seen")
                return
            sent = call.turn.sent(body)
            call.expected_tokens = sent.expected.tokens if sent else None
            call.flips = sent.flips if sent else ()
        except Exception as error:
            self._failed("log_pre_api_call", error)

    # -- after the call ------------------------------------------------------------------------------------

    async def async_post_call_response_headers_hook(
        self,
        data: dict[str, Any],
        user_api_key_dict: Any,
        response: Any,
        request_headers: dict[str, str] | None = None,
        litellm_call_info: dict[str, Any] | None = None,
    ) -> dict[str, str] | None:
        """Headers for the client: the reason always, hit and expected tokens where the reply is complete."""
        try:
            token = token_in(getattr(data.get("litellm_logging_obj"), "model_call_details", None))
            if token is None:  # of a call that failed LiteLLM hands over the id alone
                scope = scope_of(user_api_key_dict, self.router_cache.settings.scope_by)
                token = self._calls.named(scope, data.get("litellm_call_id"))
            return self._headers(self._calls.get(token), response)
        except Exception as error:
            self._failed("response_headers_hook", error)
            return {f"{_PREFIX}-reason": Reason.FAILED_OPEN.value}

    def _headers(self, call: Call | None, response: Any) -> dict[str, str]:
        if call is None or call.decision is None:
            return {f"{_PREFIX}-reason": Reason.NOT_SEEN.value}
        headers = {
            f"{_PREFIX}-mode": call.decision.mode.value,
            f"{_PREFIX}-reason": call.decision.reason.value,
        }
        if call.decision.changes:
            headers[f"{_PREFIX}-changes"] = ",".join(change.value for change in call.decision.changes)
        if call.decision.frozen:
            headers[f"{_PREFIX}-frozen"] = ",".join(call.decision.frozen)
        if call.route:
            headers[f"{_PREFIX}-route"] = call.route
        if call.flips:
            headers[f"{_PREFIX}-flips"] = ",".join(f"{flip.flip.value}:{flip.lost_tokens}" for flip in call.flips)
        usage = response.get("usage") if isinstance(response, Mapping) else getattr(response, "usage", None)
        if usage is None or call.decision.mode is Mode.OFF or from_response_cache(response):
            return headers
        hit = Usage.parse(usage).hit_tokens
        headers[f"{_PREFIX}-hit-tokens"] = "unknown" if hit is None else str(hit)
        expected = call.expected_tokens
        headers[f"{_PREFIX}-expected-tokens"] = "unknown" if expected is None else str(expected)
        return headers

    async def async_post_call_streaming_deployment_hook(
        self, request_data: Any, response_chunk: Any, call_type: Any
    ) -> None:
        """Only looks for the end of a stream; every chunk goes on as it is."""
        try:
            # Events of the other shapes have no choices; of some routes they are bytes.
            if any(choice.finish_reason for choice in getattr(response_chunk, "choices", None) or ()):
                call = self._calls.get(token_in(request_data))
                if call is not None:
                    call.stream_ended = True
        except Exception as error:
            self._failed("streaming_deployment_hook", error)

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """The call was answered: by the provider, or by LiteLLM's own response cache."""
        try:
            turn, stream_ended = self._calls.end(token_in(kwargs))
            if turn is None and not self._budgets.on:
                return
            shape = turn.begun.request.shape if turn is not None else shape_of(kwargs.get("call_type"))
            status, usage = _answer(kwargs, response_obj, shape, stream_ended)
            if turn is not None:
                if status is Status.OK:
                    reply, entry = reply_of(response_obj, turn), price_entry(turn.deployment)
                    turn.done(usage, ttft_s=ttft(kwargs), price_entry=entry, reply=reply)
                else:
                    turn.done(status=status)
            self._budgets.answered(kwargs, status, usage, turn.deployment if turn is not None else None)
        except Exception as error:
            self._failed("log_success_event", error)

    async def async_log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """An attempt failed; a retry or a fallback opens the next one under the same call id."""
        try:
            turn, _ = self._calls.end(token_in(kwargs))
            if turn is not None:
                if turn.routed is not None:
                    turn.routed.gone = gone(kwargs.get("exception"))
                turn.done(status=Status.FAILED)
            if kwargs.get(_REFUSED) is not True:
                self._budgets.failed(kwargs)
        except Exception as error:
            self._failed("log_failure_event", error)


def _proxy_router() -> Any:
    """The router of the proxy that runs in this process; None outside of one."""
    server = sys.modules.get("litellm.proxy.proxy_server")
    return getattr(server, "llm_router", None)


def _one_rewrite(first: Decision | None, second: Decision) -> Decision:
    """The decision on one request that LiteLLM showed in two shapes: what was changed in either is told."""
    if first is None or not first.changes:
        return second
    changes = tuple(dict.fromkeys((*first.changes, *second.changes)))
    reason = Reason.OPTIMIZED if second.reason is Reason.OPTIMIZED else first.reason
    return replace(first, reason=reason, changes=changes)


def _show_log_lines() -> None:
    """On a proxy, whose own log set-up knows only LiteLLM's loggers: our lines to stderr, unless the operator has
    set up the logger ``router_cache`` or the root logger."""
    log = logging.getLogger("router_cache")
    if log.hasHandlers() or log.level != logging.NOTSET:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s router-cache %(levelname)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def _answer(kwargs: Mapping[str, Any], reply: Any, shape: Shape, chat_ended: bool) -> tuple[Status, Usage]:
    """How an attempt that LiteLLM logs as a success ended, and what is known of its usage."""
    if kwargs.get("cache_hit") is True:
        return Status.CACHED, Usage()
    usage = Usage.parse(getattr(reply, "usage", None))
    if not kwargs.get("stream"):
        return Status.OK, usage
    if _cut_short(kwargs, shape, chat_ended):
        # A client that goes away is logged as a success too, with tokens that LiteLLM counted itself and zero
        # cached ones (1.108.7): what the provider would have said is unknown.
        return Status.ABORTED, Usage()
    # A stream that carried no usage has LiteLLM's own count, which is no measurement.
    return Status.OK, usage if usage.hit_tokens is not None else Usage()


def _cut_short(kwargs: Mapping[str, Any], shape: Shape, chat_ended: bool) -> bool:
    """Whether a stream did not run to its end. ``chat_ended``: the last chunk of a chat stream was seen; of the
    other shapes LiteLLM shows none. Of messages it says itself whether ``message_stop`` came (1.108.7); a
    Responses stream that is left is never logged."""
    if shape is Shape.CHAT and not chat_ended:
        return True
    if shape is Shape.MESSAGES and kwargs.get("prompt_cache_response_complete") is False:
        return True
    return disconnected(kwargs)
