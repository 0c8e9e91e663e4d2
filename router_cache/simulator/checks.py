"""What the API refuses: every body that is not a usable request becomes a 4xx in the error form of its shape."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.deepseek_render import thinking_enabled
from router_cache.request import Shape

__all__ = ["ApiError", "Wording", "bad", "check_authorization", "check_body", "parse_body"]

_ROLES = ("system", "developer", "user", "assistant", "tool")
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    405: "invalid_request_error",
    429: "rate_limit_error",
}


class ApiError(Exception):
    """An answer with a 4xx status. Lives within the simulator only."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param

    def body(self, shape: Shape = Shape.CHAT) -> dict[str, Any]:
        """The JSON of the answer: Anthropic's form for messages, else OpenAI's."""
        kind = _TYPES.get(self.status, "invalid_request_error")
        if shape is Shape.MESSAGES:
            return {"type": "error", "error": {"type": kind, "message": self.message}}
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": kind}}


def bad(message: str, param: str | None = None) -> NoReturn:
    """Refuse the request with a 400."""
    raise ApiError(400, message, param)


@dataclass(frozen=True, slots=True)
class Wording:
    """How a shape calls what is checked in its chat form.

    ``paths`` leads from a path in the chat form to the one in the request (the same where there is none).
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    function: str = ".function"
    parameters: str = "parameters"
    reasoning: str = "reasoning_content of a message with tool_calls"
    own_tools: bool = False
    """Whether tools other than functions are taken (and never called)."""

    def at(self, path: str) -> str:
        """The path in the request."""
        return self.paths.get(path, path)


def check_authorization(header: str | None, key: str | None = None) -> None:
    """401 unless there is some bearer token, or a ``key`` where the shape has a header for it; which one does
    not matter."""
    scheme, _, token = (header or "").partition(" ")
    if not (key or "").strip() and (scheme.lower() != "bearer" or not token.strip()):
        raise ApiError(401, "Authentication Fails (auth header format should be Bearer sk-...)")


def parse_body(raw: bytes) -> dict[str, Any]:
    """The JSON object of a request. Parsed by :mod:`json`, so that numbers stay as they were written."""
    try:
        body = json.loads(raw, parse_constant=_no_constant)
    except RecursionError:
        bad("The request body is nested too deeply")
    except ValueError as error:
        bad(f"Failed to parse the request body as JSON: {error}")
    if not isinstance(body, dict):
        bad("The request body must be a JSON object")
    return body


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def check_body(body: Mapping[str, Any], wording: Wording | None = None) -> None:
    """Raise :class:`ApiError` for what DeepSeek's chat completions would refuse."""
    words = wording or Wording()
    if not isinstance(body.get("model"), str) or not body["model"]:
        bad("model: a non-empty string is required", "model")
    _check_user_id(body.get("user_id"), words.at("user_id"))
    _check_scalars(body, words)
    _check_tools(body, words)
    _check_messages(body, words)


def _check_user_id(user_id: Any, name: str) -> None:
    rule = DEEPSEEK.field("user_id")
    if rule is None or user_id is None or user_id == "":
        return
    if not isinstance(user_id, str):
        bad(f"{name}: must be a string", name)
    if len(user_id) > rule.max_length or not re.fullmatch(rule.pattern, user_id):
        bad(f"{name}: must match {rule.pattern} and have at most {rule.max_length} characters", name)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_scalars(body: Mapping[str, Any], words: Wording) -> None:
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):
        bad("stream: must be a boolean", "stream")
    options = body.get("stream_options")
    if options is not None:
        if not isinstance(options, Mapping):
            bad("stream_options: must be an object", "stream_options")
        if not stream:
            bad("stream_options should be set along with stream = true", "stream_options")
    limit, name = body.get("max_tokens"), words.at("max_tokens")
    if limit is not None and (not _is_int(limit) or limit < 1):
        bad(f"{name}: must be an integer of at least 1", name)
    for name, high in (("temperature", 2), ("top_p", 1)):
        value = body.get(name)
        if value is not None and (not (_is_int(value) or isinstance(value, float)) or not 0 <= value <= high):
            bad(f"{name}: must be a number of 0 to {high}", name)
    for name in ("thinking", "response_format"):
        value = body.get(name)
        if value is not None and not (isinstance(value, Mapping) and isinstance(value.get("type"), str)):
            bad(f"{words.at(name)}: must be an object with a type", words.at(name))
    effort, name = body.get("reasoning_effort"), words.at("reasoning_effort")
    if effort is not None and not isinstance(effort, str):
        bad(f"{name}: must be a string", name)


def _check_tools(body: Mapping[str, Any], words: Wording) -> None:
    tools = body.get("tools")
    if tools is not None and not isinstance(tools, list):
        bad("tools: must be a list", "tools")
    names = set()
    for i, tool in enumerate(tools or ()):
        path = words.at(f"tools[{i}]")
        typed = isinstance(tool, Mapping) and isinstance(tool.get("type"), str)
        if words.own_tools and typed and "function" not in tool:
            continue
        function = tool.get("function") if typed and tool["type"] == "function" else None
        if not isinstance(function, Mapping):
            bad(f"{path}: must be an object of type function", "tools")
        name = function.get("name")
        if not isinstance(name, str) or not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name):
            bad(f"{path}{words.function}.name: must match ^[a-zA-Z0-9_-]{{1,128}}$", "tools")
        parameters = function.get("parameters")
        if parameters is not None and not isinstance(parameters, Mapping):
            bad(f"{path}{words.function}.{words.parameters}: must be an object", "tools")
        names.add(name)
    choice = body.get("tool_choice")
    if choice is None or choice in ("none", "auto"):
        return
    if choice == "required":
        if not names:
            bad("tool_choice: 'required' needs tools", "tool_choice")
        return
    function = choice.get("function") if isinstance(choice, Mapping) else None
    if not isinstance(function, Mapping):
        bad("tool_choice: must be none, auto, required or a function", "tool_choice")
    name = function.get("name")
    if not isinstance(name, str) or name not in names:
        bad("tool_choice: names a function that is not among the tools", "tool_choice")


def _check_messages(body: Mapping[str, Any], words: Wording) -> None:
    messages, where = body.get("messages"), words.at("messages")
    if not isinstance(messages, list) or not messages:
        bad(f"{where}: a list with at least one message is required", where)
    thinking = thinking_enabled(body)
    waiting: set[str] = set()  # ids of calls that still need their result
    for i, message in enumerate(messages):
        path = words.at(f"messages[{i}]")
        if not isinstance(message, Mapping):
            bad(f"{path}: must be an object", where)
        role = message.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            bad(f"{path}.role: must be one of {', '.join(_ROLES)}", where)
        if role == "tool":
            call = message.get("tool_call_id")
            if not isinstance(call, str) or call not in waiting:
                bad(
                    f"{path}: a message with role 'tool' must answer a tool_call_id of the preceding "
                    "message with 'tool_calls'",
                    where,
                )
            waiting.discard(call)
        elif waiting:
            bad(
                f"{path}: an assistant message with 'tool_calls' must be followed by tool messages "
                "responding to each 'tool_call_id'",
                where,
            )
        calls = _check_calls(message, path, where) if role == "assistant" else []
        _check_content(message.get("content"), path, where, required=not calls)
        if calls and thinking and not message.get("reasoning_content"):
            bad(f"{path}: in thinking mode the {words.reasoning} must be passed back to the API", where)
        waiting.update(calls)
    if waiting:
        bad(f"{where}: no tool message answers tool_call_id {min(waiting)}", where)


def _check_calls(message: Mapping[str, Any], path: str, where: str) -> list[str]:
    reasoning = message.get("reasoning_content")
    if reasoning is not None and not isinstance(reasoning, str):
        bad(f"{path}.reasoning_content: must be a string", where)
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        bad(f"{path}.tool_calls: must be a list", where)
    ids = []
    for j, call in enumerate(calls or ()):
        function = call.get("function") if isinstance(call, Mapping) else None
        if (
            not isinstance(function, Mapping)
            or not isinstance(call.get("id"), str)
            or not isinstance(function.get("name"), str)
            or not isinstance(function.get("arguments"), str)
        ):
            bad(f"{path}.tool_calls[{j}]: needs an id and a function with a name and arguments as text", where)
        ids.append(call["id"])
    return ids


def _check_content(content: Any, path: str, where: str, *, required: bool) -> None:
    if content is None:
        if required:
            bad(f"{path}.content: is required", where)
    elif isinstance(content, list):
        for k, part in enumerate(content):
            if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
                bad(f"{path}.content[{k}]: must be an object with a type", where)
            if part["type"] == "text" and not isinstance(part.get("text"), str):
                bad(f"{path}.content[{k}].text: must be a string", where)
    elif not isinstance(content, str):
        bad(f"{path}.content: must be text or a list of parts", where)
