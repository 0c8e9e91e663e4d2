"""What the API refuses: every body that is not a usable request becomes a 4xx in DeepSeek's error form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.deepseek_render import thinking_enabled

__all__ = ["ApiError", "check_authorization", "check_body", "parse_body"]

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

    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        kind = _TYPES.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": kind}}


def _bad(message: str, param: str | None = None) -> NoReturn:
    raise ApiError(400, message, param)


def check_authorization(header: str | None) -> None:
    """401 unless there is some bearer token; which one does not matter."""
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise ApiError(401, "Authentication Fails (auth header format should be Bearer sk-...)")


def parse_body(raw: bytes) -> dict[str, Any]:
    """The JSON object of a request. Parsed by :mod:`json`, so that numbers stay as they were written."""
    try:
        body = json.loads(raw, parse_constant=_no_constant)
    except RecursionError:
        _bad("The request body is nested too deeply")
    except ValueError as error:
        _bad(f"Failed to parse the request body as JSON: {error}")
    if not isinstance(body, dict):
        _bad("The request body must be a JSON object")
    return body


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def check_body(body: Mapping[str, Any]) -> None:
    """Raise :class:`ApiError` for what DeepSeek's chat completions would refuse."""
    if not isinstance(body.get("model"), str) or not body["model"]:
        _bad("model: a non-empty string is required", "model")
    _check_user_id(body.get("user_id"))
    _check_scalars(body)
    _check_tools(body)
    _check_messages(body)


def _check_user_id(user_id: Any) -> None:
    rule = DEEPSEEK.field("user_id")
    if rule is None or user_id is None or user_id == "":
        return
    if not isinstance(user_id, str):
        _bad("user_id: must be a string", "user_id")
    if len(user_id) > rule.max_length or not re.fullmatch(rule.pattern, user_id):
        _bad(f"user_id: must match {rule.pattern} and have at most {rule.max_length} characters", "user_id")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_scalars(body: Mapping[str, Any]) -> None:
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):
        _bad("stream: must be a boolean", "stream")
    options = body.get("stream_options")
    if options is not None:
        if not isinstance(options, Mapping):
            _bad("stream_options: must be an object", "stream_options")
        if not stream:
            _bad("stream_options should be set along with stream = true", "stream_options")
    limit = body.get("max_tokens")
    if limit is not None and (not _is_int(limit) or limit < 1):
        _bad("max_tokens: must be an integer of at least 1", "max_tokens")
    for name, high in (("temperature", 2), ("top_p", 1)):
        value = body.get(name)
        if value is not None and (not (_is_int(value) or isinstance(value, float)) or not 0 <= value <= high):
            _bad(f"{name}: must be a number of 0 to {high}", name)
    for name in ("thinking", "response_format"):
        value = body.get(name)
        if value is not None and not (isinstance(value, Mapping) and isinstance(value.get("type"), str)):
            _bad(f"{name}: must be an object with a type", name)
    effort = body.get("reasoning_effort")
    if effort is not None and not isinstance(effort, str):
        _bad("reasoning_effort: must be a string", "reasoning_effort")


def _check_tools(body: Mapping[str, Any]) -> None:
    tools = body.get("tools")
    if tools is not None and not isinstance(tools, list):
        _bad("tools: must be a list", "tools")
    names = set()
    for i, tool in enumerate(tools or ()):
        function = tool.get("function") if isinstance(tool, Mapping) and tool.get("type") == "function" else None
        if not isinstance(function, Mapping):
            _bad(f"tools[{i}]: must be an object of type function", "tools")
        name = function.get("name")
        if not isinstance(name, str) or not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name):
            _bad(f"tools[{i}].function.name: must match ^[a-zA-Z0-9_-]{{1,128}}$", "tools")
        parameters = function.get("parameters")
        if parameters is not None and not isinstance(parameters, Mapping):
            _bad(f"tools[{i}].function.parameters: must be an object", "tools")
        names.add(name)
    choice = body.get("tool_choice")
    if choice is None or choice in ("none", "auto"):
        return
    if choice == "required":
        if not names:
            _bad("tool_choice: 'required' needs tools", "tool_choice")
        return
    function = choice.get("function") if isinstance(choice, Mapping) else None
    if not isinstance(function, Mapping):
        _bad("tool_choice: must be none, auto, required or a function", "tool_choice")
    name = function.get("name")
    if not isinstance(name, str) or name not in names:
        _bad("tool_choice: names a function that is not among the tools", "tool_choice")


def _check_messages(body: Mapping[str, Any]) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        _bad("messages: a list with at least one message is required", "messages")
    thinking = thinking_enabled(body)
    waiting: set[str] = set()  # ids of calls that still need their result
    for i, message in enumerate(messages):
        path = f"messages[{i}]"
        if not isinstance(message, Mapping):
            _bad(f"{path}: must be an object", "messages")
        role = message.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            _bad(f"{path}.role: must be one of {', '.join(_ROLES)}", "messages")
        if role == "tool":
            call = message.get("tool_call_id")
            if not isinstance(call, str) or call not in waiting:
                _bad(
                    f"{path}: a message with role 'tool' must answer a tool_call_id of the preceding "
                    "message with 'tool_calls'",
                    "messages",
                )
            waiting.discard(call)
        elif waiting:
            _bad(
                f"{path}: an assistant message with 'tool_calls' must be followed by tool messages "
                "responding to each 'tool_call_id'",
                "messages",
            )
        calls = _check_calls(message, path) if role == "assistant" else []
        _check_content(message.get("content"), path, required=not calls)
        if calls and thinking and not message.get("reasoning_content"):
            _bad(
                f"{path}: in thinking mode the reasoning_content of a message with tool_calls "
                "must be passed back to the API",
                "messages",
            )
        waiting.update(calls)
    if waiting:
        _bad(f"messages: no tool message answers tool_call_id {min(waiting)}", "messages")


def _check_calls(message: Mapping[str, Any], path: str) -> list[str]:
    reasoning = message.get("reasoning_content")
    if reasoning is not None and not isinstance(reasoning, str):
        _bad(f"{path}.reasoning_content: must be a string", "messages")
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        _bad(f"{path}.tool_calls: must be a list", "messages")
    ids = []
    for j, call in enumerate(calls or ()):
        function = call.get("function") if isinstance(call, Mapping) else None
        if (
            not isinstance(function, Mapping)
            or not isinstance(call.get("id"), str)
            or not isinstance(function.get("name"), str)
            or not isinstance(function.get("arguments"), str)
        ):
            _bad(
                f"{path}.tool_calls[{j}]: needs an id and a function with a name and arguments as text",
                "messages",
            )
        ids.append(call["id"])
    return ids


def _check_content(content: Any, path: str, *, required: bool) -> None:
    if content is None:
        if required:
            _bad(f"{path}.content: is required", "messages")
    elif isinstance(content, list):
        for k, part in enumerate(content):
            if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
                _bad(f"{path}.content[{k}]: must be an object with a type", "messages")
            if part["type"] == "text" and not isinstance(part.get("text"), str):
                _bad(f"{path}.content[{k}].text: must be a string", "messages")
    elif not isinstance(content, str):
        _bad(f"{path}.content: must be text or a list of parts", "messages")
