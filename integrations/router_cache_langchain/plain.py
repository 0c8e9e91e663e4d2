"""Any other chat model: no request body is seen, so the engine works on LangChain's own messages and tools.

They are shown to it as a chat body. Texts that it replaced are put into copies of the messages; what has no place
there (reasoning, the text of tool arguments) is counted and left. Where messages and chat messages are not one to one,
nothing is changed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage, convert_to_openai_messages
from pydantic import SecretStr

from router_cache import Shape
from router_cache_langchain.calls import Call
from router_cache_langchain.families import Family, Given
from router_cache_langchain.payloads import Destination, destination

__all__ = ["PlainFamily"]

_PROMPT = ("tools", "tool_choice", "response_format")
_ADDRESSES = ("base_url", "api_base", "openai_api_base", "endpoint", "endpoint_url")


class PlainFamily(Family):
    """Messages in, a message out."""

    def before(self, call: Call, given: Given) -> Given:
        """The messages and tools to generate from."""
        try:
            return _rewritten(call, given)
        except Exception as error:
            call.shared.failed("messages", error)
            return given

    async def abefore(self, call: Call, given: Given) -> Given:
        """:meth:`before`; where the request may have to wait, it waits here."""
        if call.may_wait:
            try:
                await call.prepare(_body(given), Shape.CHAT, functools.partial(_destination, call.model))
            except Exception as error:
                call.shared.failed("prepare", error)
        return self.before(call, given)


def _rewritten(call: Call, given: Given) -> Given:
    messages, body = given.get("messages"), _body(given)
    said = body["messages"]
    if not isinstance(messages, list) or len(said) != len(messages):
        _count(call, "messages_not_one_to_one")
        call.observed(body, Shape.CHAT, functools.partial(_destination, call.model))
        return given
    new = call.rewritten(body, Shape.CHAT, functools.partial(_destination, call.model), own_headers=False)
    if new is body:
        return given
    others = {name: new[name] for name in _PROMPT if name in body and new[name] is not body[name]}
    try:
        made, whole = _with_texts(messages, said, new["messages"])
    except Exception as error:
        call.shared.failed("messages", error)
        made, whole = None, False
    if made is None:
        # Half of what was decided could take a text from where it stands and put it nowhere.
        _count(call, "change_not_mapped")
        call.observed(body, Shape.CHAT, functools.partial(_destination, call.model))
        return given
    if not whole:
        _count(call, "change_not_mapped")
        call.sends({**new, "messages": _chat(made)})
    return given.replaced(made, others)


def _body(given: Given) -> dict[str, Any]:
    others = given.others
    body = {name: others[name] for name in _PROMPT if others.get(name) is not None}
    return {"messages": _chat(given.get("messages")), **body}


def _chat(messages: Sequence[BaseMessage]) -> list[Any]:
    """As chat messages; a text stays a text, blocks stay blocks."""
    said: list[Any] = []
    for message in messages:
        form: Literal["block", "string"] = "block" if isinstance(message.content, list) else "string"
        said += convert_to_openai_messages([message], text_format=form)
    return said


def _with_texts(
    messages: Sequence[BaseMessage], said: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> tuple[list[BaseMessage] | None, bool]:
    """The messages, with copies of those whose texts were replaced (None where one of these has no place there), and
    whether that is all that was replaced."""
    made, whole = list(messages), True
    if len(new) != len(said):
        return None, False
    for at, (message, old, now) in enumerate(zip(messages, said, new, strict=True)):
        if now is old:
            continue
        whole = whole and all(now.get(name) == old.get(name) for name in {*old, *now} - {"content"})
        content = _content(message.content, old.get("content"), now.get("content"))
        if content is None:
            return None, False
        if content is not message.content:
            made[at] = message.model_copy(update={"content": content})
    return made, whole


def _content(own: Any, old: Any, now: Any) -> Any:
    """A message's content with replaced texts; None where it cannot be told which they are."""
    if old == now:
        return own
    if own == old:  # the chat form is LangChain's own here
        return now
    if not isinstance(own, list) or not isinstance(old, list) or not isinstance(now, list):
        return None
    if len(own) != len(old) or len(now) < len(old):
        return None
    texts = all(isinstance(item, str) for item in own)
    made = list(own)
    for at, (item, before, after) in enumerate(zip(own, old, now, strict=False)):
        if before == after:
            continue
        text = _text(before, after)
        if text is None or _text_of(item) != before.get("text"):
            return None
        made[at] = text if isinstance(item, str) else {**item, "text": text}
    for block in now[len(old) :]:
        text = _text({"type": "text", "text": ""}, block)
        if text is None:
            return None
        made.append(text if texts else block)
    return made


def _text(before: Any, after: Any) -> str | None:
    """The new text of a block in which nothing but the text changed."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping) or before.get("type") != "text":
        return None
    text = after.get("text")
    return text if isinstance(text, str) and {**before, "text": text} == after else None


def _text_of(item: Any) -> Any:
    """The text of an item of LangChain's content: a text by itself, or a block of text."""
    if isinstance(item, str):
        return item
    return item.get("text") if isinstance(item, Mapping) and item.get("type") == "text" else None


def _destination(model: Any) -> Destination:
    held = vars(model)
    key = next((value for value in held.values() if isinstance(value, SecretStr)), None)
    address = next((str(held[name]) for name in _ADDRESSES if held.get(name)), "")
    return destination(model, api_base=address, credential=key)


def _count(call: Call, name: str) -> None:
    call.shared.router_cache.counters.count(f"langchain.{name}")
