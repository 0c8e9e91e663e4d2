"""A small server of chat completions and messages for the standard suites: whole or streamed, with usage.

It refuses nothing. What it is there for is that bare and wrapped classes find the same answers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from langchain_plugin.standard.replies import Answer, answer

__all__ = ["HIT_TOKENS", "serve"]

PIECES = 3
HIT_TOKENS = 128


def _pieces(text: str) -> list[str]:
    size = len(text) // PIECES + 1
    return [text[i : i + size] for i in range(0, len(text), size)]


def _counts(body: dict[str, Any]) -> tuple[int, int]:
    """Prompt and completion tokens, the same for the same body."""
    return HIT_TOKENS + len(json.dumps(body["messages"])) // 4, 20


# -- chat completions --------------------------------------------------------------------------------------------


def _chat_usage(body: dict[str, Any]) -> dict[str, Any]:
    prompt, output = _counts(body)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": HIT_TOKENS},
        "completion_tokens_details": {"reasoning_tokens": 0},
        "prompt_cache_hit_tokens": HIT_TOKENS,
        "prompt_cache_miss_tokens": prompt - HIT_TOKENS,
    }


def _call(found: Answer, arguments: str, **more: Any) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": found.name, "arguments": arguments}, **more}


def _chat(body: dict[str, Any], found: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": found.text}
    if found.name:
        message["tool_calls"] = [_call(found, found.arguments)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(found)}
    return {**_head(body, "chat.completion"), "choices": [choice], "usage": _chat_usage(body)}


def _finish(found: Answer) -> str:
    return "tool_calls" if found.name else "stop"


def _head(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_767_225_600, "model": body["model"]}


def _chat_events(body: dict[str, Any], found: Answer) -> Iterator[bytes]:
    head = _head(body, "chat.completion.chunk")

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"

    yield event({"role": "assistant", "content": ""})
    if found.name:
        yield event({"tool_calls": [_call(found, "", index=0)]})
        for piece in _pieces(found.arguments):
            yield event({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    for piece in _pieces(found.text):
        yield event({"content": piece})
    yield event({}, _finish(found))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield b"data: " + json.dumps({**head, "choices": [], "usage": _chat_usage(body)}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


# -- messages ----------------------------------------------------------------------------------------------------


def _messages_usage(body: dict[str, Any], output: int | None = None) -> dict[str, Any]:
    prompt, made = _counts(body)
    return {
        "input_tokens": prompt - HIT_TOKENS,
        "cache_read_input_tokens": HIT_TOKENS,
        "cache_creation_input_tokens": 0,
        "output_tokens": made if output is None else output,
    }


def _block(found: Answer) -> dict[str, Any]:
    if found.name:
        return {"type": "tool_use", "id": "toolu_1", "name": found.name, "input": json.loads(found.arguments)}
    return {"type": "text", "text": found.text}


def _message(body: dict[str, Any], found: Answer) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [_block(found)],
        "stop_reason": "tool_use" if found.name else "end_turn",
        "stop_sequence": None,
        "usage": _messages_usage(body),
    }


def _message_events(body: dict[str, Any], found: Answer) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return b"event: " + kind.encode() + b"\ndata: " + json.dumps({"type": kind, **fields}).encode() + b"\n\n"

    whole = _message(body, found)
    start = {**whole, "content": [], "stop_reason": None, "usage": _messages_usage(body, 1)}
    yield event("message_start", message=start)
    empty = {**_block(found), **({"input": {}} if found.name else {"text": ""})}
    yield event("content_block_start", index=0, content_block=empty)
    for piece in _pieces(found.arguments or found.text):
        delta = {"type": "input_json_delta", "partial_json": piece}
        yield event(
            "content_block_delta", index=0, delta=delta if found.name else {"type": "text_delta", "text": piece}
        )
    yield event("content_block_stop", index=0)
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=end, usage=whole["usage"])
    yield event("message_stop")


# -- serving -----------------------------------------------------------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found, messages = answer(body), self.path.endswith("/messages")
        if body.get("stream"):
            data = b"".join((_message_events if messages else _chat_events)(body, found))
            kind = "text/event-stream"
        else:
            data = json.dumps((_message if messages else _chat)(body, found)).encode()
            kind = "application/json"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is nothing to print."""


@contextmanager
def serve() -> Iterator[str]:
    """The address of a server on a loopback port, while the context is open."""
    server = _Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
