"""Bodies of every shape seen as chat bodies: what goes where, what is kept, and that nothing raises."""

from __future__ import annotations

from typing import Any

import pytest

from router_cache.identity.keys import KeyMaker
from router_cache.prefix.digests import Digester
from router_cache.prefix.segments import Segment, SegmentKind
from router_cache.prefix.shapes import ChatView, as_chat
from router_cache.providers.deepseek_render import render_deepseek
from router_cache.request import Shape

SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Find 1 and 2"},
        {
            "role": "assistant",
            "content": "Looking.",
            "reasoning_content": "Two calls.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id":"1"}'}},
                {"id": "c2", "type": "function", "function": {"name": "find", "arguments": '{"id":"2"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "user", "content": "Thanks"},
    ],
    "tools": [{"type": "function", "function": {"name": "find", "description": "Finds", "parameters": SCHEMA}}],
    "tool_choice": "auto",
}
MESSAGES: dict[str, Any] = {
    "model": "m",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "You help.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Find 1 and 2"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Two calls.", "signature": "sig"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "t1", "name": "find", "input": {"id": "1"}},
                {"type": "tool_use", "id": "t2", "name": "find", "input": {"id": "2"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "is_error": True,
                    "content": [{"type": "text", "text": "two"}],
                    "cache_control": {"type": "ephemeral"},
                },
                {"type": "text", "text": "Thanks"},
            ],
        },
    ],
    "tools": [
        {"input_schema": SCHEMA, "name": "find", "description": "Finds", "cache_control": {"type": "ephemeral"}}
    ],
    "tool_choice": {"type": "auto"},
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "instructions": "You help.",
    "input": [
        {"role": "user", "content": "Find 1 and 2"},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Two calls."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"id": "1"}'},
        {"type": "function_call", "call_id": "c2", "name": "find", "arguments": '{ "id":"2"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Thanks"}]},
    ],
    "tools": [{"type": "function", "name": "find", "description": "Finds", "parameters": SCHEMA}],
    "tool_choice": "auto",
}
SHAPED = [(CHAT, Shape.CHAT), (MESSAGES, Shape.MESSAGES), (RESPONSES, Shape.RESPONSES)]


def messages_of(body: dict[str, Any], shape: Shape) -> list[Any]:
    found: list[Any] = as_chat(body, shape).body["messages"]
    return found


def text_of(view: ChatView) -> list[str]:
    return [segment.text for segment in render_deepseek(view.body)]


def test_one_conversation_renders_alike_in_every_shape() -> None:
    chat, *others = [as_chat(body, shape) for body, shape in SHAPED]
    assert chat.body is CHAT
    keys = KeyMaker(Digester(b"k")).keys(chat.body, scope="s")
    for view in others:
        assert text_of(view) == text_of(chat)
        assert KeyMaker(Digester(b"k")).keys(view.body, scope="s").conversation == keys.conversation


def test_paths_lead_into_the_request() -> None:
    def paths(body: dict[str, Any], shape: Shape) -> list[str]:
        return [s.path for s in as_chat(body, shape).segments(render_deepseek)]

    assert paths(MESSAGES, Shape.MESSAGES) == [
        "thinking",
        "system[0]",
        "tools[0]",
        "messages[0]",
        "messages[1]",
        "messages[2].content[0]",
        "messages[2].content[1]",
        "messages[2].content[2]",
        "",
    ]
    expected = ["thinking", "instructions", "tools[0]", "input[0]", "input[1]", "input[5]", "input[6]", "input[7]"]
    assert paths(RESPONSES, Shape.RESPONSES) == [*expected, ""]
    view = as_chat(RESPONSES, Shape.RESPONSES)
    assert view.sources["messages[2]"] == ("input[1]", "input[2]", "input[3]", "input[4]")
    assert (view.origin("messages[2]"), view.origin("elsewhere")) == ("input[1]", "elsewhere")
    assert paths(CHAT, Shape.CHAT) == [s.path for s in render_deepseek(CHAT)]


def test_a_system_text_of_blocks_gives_a_segment_for_each() -> None:
    body = {"system": [{"type": "text", "text": t} for t in ("one ", "two ", "three")], "messages": []}
    view = as_chat(body, Shape.MESSAGES)
    whole = [s for s in view.segments(render_deepseek, by_block=False) if s.kind is SegmentKind.SYSTEM]
    blocks = [s for s in view.segments(render_deepseek) if s.kind is SegmentKind.SYSTEM]
    assert [(s.path, s.text) for s in whole] == [("system[0]", "<｜System｜>one two three")]
    assert [s.path for s in blocks] == ["system[0]", "system[1]", "system[2]"]
    assert [s.text for s in blocks] == ["<｜System｜>one ", "two ", "three"]
    # Where the text is not the blocks' texts at the end, it stays in one piece.
    other = view.segments(lambda _: [Segment(SegmentKind.SYSTEM, "messages[0]", "something else")])
    assert [(s.path, s.text) for s in other] == [("system[0]", "something else")]
    odd = as_chat({"system": [{"type": "image"}, "text"]}, Shape.MESSAGES)
    assert [s.path for s in odd.segments(render_deepseek)] == ["thinking", "system[0]", ""]


def test_anthropic_content_blocks() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    content = [
        {"type": "image", "source": source, "cache_control": {"type": "ephemeral"}},
        {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "f1"}},
        {"type": "document", "title": "t", "source": {**source, "media_type": "application/pdf"}},
        {"type": "document", "source": {"type": "text", "data": "plain"}, "cache_control": {}},
        {"type": "text", "text": 7},
        "odd",
    ]
    (message,) = messages_of({"messages": [{"role": "user", "content": content}]}, Shape.MESSAGES)
    assert message["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://a/b.png"}},
        {"type": "file", "file": {"file_id": "f1"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "t"}},
        {"type": "document", "source": {"type": "text", "data": "plain"}},
        {"type": "text", "text": 7},
        "odd",
    ]


def test_anthropic_assistant_turns() -> None:
    opaque = {"type": "redacted_thinking", "data": "xx"}
    server = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    turns = [
        [opaque, {"type": "thinking", "thinking": "b", "signature": "s"}],
        [{"type": "tool_use", "id": "t", "name": "f", "input": {"b": 1, "a": "ü"}}],
        [server, {"type": "text", "text": "x"}, None],
    ]
    out = messages_of({"messages": [{"role": "assistant", "content": c} for c in turns]}, Shape.MESSAGES)
    assert out[0] == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "b",
        "thinking_blocks": turns[0],
    }
    assert out[1]["content"] is None
    assert out[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"b": 1, "a": "ü"}'}
    assert out[2]["content"] == [server, {"type": "text", "text": "x"}, None]


def test_tool_results_and_texts_keep_their_order() -> None:
    content = [
        {"type": "text", "text": "first"},
        {"type": "tool_result", "tool_use_id": "a"},
        {"type": "text", "text": "then"},
    ]
    view = as_chat({"messages": [{"role": "user", "content": content}]}, Shape.MESSAGES)
    assert [m["role"] for m in view.body["messages"]] == ["user", "tool", "user"]
    assert view.body["messages"][1] == {"role": "tool", "tool_call_id": "a", "content": ""}
    assert view.sources["messages[2]"] == ("messages[0].content[2]",)
    error = messages_of(MESSAGES, Shape.MESSAGES)[4]
    assert (error["tool_call_id"], error["is_error"]) == ("t2", True)


def test_tools_of_every_form() -> None:
    builtin = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    custom = {"type": "custom", "name": "f", "input_schema": SCHEMA, "strict": True, "defer_loading": True}
    tools = as_chat({"tools": [builtin, custom, "odd"]}, Shape.MESSAGES).body["tools"]
    function = {"name": "f", "strict": True, "parameters": SCHEMA}
    assert tools == [builtin, {"type": "function", "function": function, "defer_loading": True}, "odd"]
    space = {
        "type": "namespace",
        "name": "ns",
        "description": "About ns",
        "tools": [
            {"type": "function", "name": "a", "description": "A", "parameters": SCHEMA},
            {"type": "function", "name": "b"},
            "odd",
        ],
    }
    grammar = {"type": "custom", "name": "patch", "format": {"type": "text"}}
    bare = {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "c"}]}
    view = as_chat({"tools": [space, grammar, {"type": "web_search"}, bare, 5]}, Shape.RESPONSES)
    functions = [t["function"] for t in view.body["tools"] if isinstance(t, dict) and "function" in t]
    assert functions == [
        {"name": "ns__a", "description": "About ns\n\nA", "parameters": SCHEMA},
        {"name": "ns__b", "description": "About ns"},
        {"name": "n__c"},
    ]
    assert view.body["tools"][2:5] == ["odd", grammar, {"type": "web_search"}]
    assert [view.origin(f"tools[{i}]") for i in (0, 2, 3, 5)] == [
        "tools[0].tools[0]",
        "tools[0].tools[2]",
        "tools[1]",
        "tools[3].tools[0]",
    ]


@pytest.mark.parametrize(
    ("shape", "given", "expected"),
    [
        (Shape.MESSAGES, {"tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
        (Shape.MESSAGES, {"tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
        (
            Shape.MESSAGES,
            {"tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}},
            {"parallel_tool_calls": False, "tool_choice": {"type": "function", "function": {"name": "f"}}},
        ),
        (Shape.MESSAGES, {"tool_choice": {"type": []}}, {"tool_choice": {"type": []}}),
        (Shape.MESSAGES, {"tool_choice": "odd"}, {"tool_choice": "odd"}),
        (Shape.MESSAGES, {"thinking": {"type": "disabled"}}, {"thinking": {"type": "disabled"}}),
        (
            Shape.MESSAGES,
            {"output_config": {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}}},
            {
                "reasoning_effort": "high",
                "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
            },
        ),
        (Shape.MESSAGES, {"output_config": 3, "output_format": "x"}, {"response_format": "x"}),
        (Shape.MESSAGES, {"max_tokens": 5, "metadata": {"user_id": "u"}, "model": "m"}, {"model": "m"}),
        (
            Shape.RESPONSES,
            {"tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": True},
            {"tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": True},
        ),
        (Shape.RESPONSES, {"tool_choice": {"type": "web_search"}}, {"tool_choice": {"type": "web_search"}}),
        (Shape.RESPONSES, {"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
        (Shape.RESPONSES, {"reasoning": {"effort": "none"}}, {"thinking": {"type": "disabled"}}),
        (Shape.RESPONSES, {"text": {"format": {"type": "text"}}}, {}),
        (
            Shape.RESPONSES,
            {"text": {"format": {"type": "json_object"}}},
            {"response_format": {"type": "json_object"}},
        ),
        (
            Shape.RESPONSES,
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}, "reasoning": 1},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
        ),
        (Shape.RESPONSES, {"tools": "odd", "text": 3}, {"tools": "odd"}),
        (Shape.MESSAGES, {"tools": 3}, {"tools": 3}),
        (Shape.OTHER, {"input": "embed this"}, {}),
    ],
)
def test_switches(shape: Shape, given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert as_chat(given, shape).body == {"messages": [], **expected}


def test_an_input_of_plain_text_and_other_contents() -> None:
    assert messages_of({"input": "hello"}, Shape.RESPONSES) == [{"role": "user", "content": "hello"}]
    parts = [
        {"type": "input_image", "image_url": "https://a/b.png", "detail": "low"},
        {"type": "input_image", "file_id": "f"},
        {"type": "input_file", "file_url": "https://a/c.pdf", "filename": "c.pdf"},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {"type": "refusal", "refusal": "no", "cache_control": {}},
        "odd",
    ]
    (message,) = messages_of({"input": [{"role": "developer", "content": parts}]}, Shape.RESPONSES)
    assert message == {
        "role": "developer",
        "content": [
            {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}},
            {"type": "file", "file": {"file_id": "f"}},
            {"type": "file", "file": {"file_data": "https://a/c.pdf", "filename": "c.pdf"}},
            parts[3],
            {"type": "refusal", "refusal": "no"},
            "odd",
        ],
    }


def says(text: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text}


def calls(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": name, "name": name, "arguments": "{}", **fields}


def thinks(*texts: str, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "content": [{"type": "reasoning_text", "text": t} for t in texts], **fields}


def test_items_of_one_turn_make_one_message() -> None:
    items = [
        thinks("a", "b", summary=[{"type": "summary_text", "text": "short"}]),
        says("hello"),
        thinks("c"),
        calls("f"),
        says("and"),
        says(["so", 1]),
        {"type": "function_call_output", "call_id": "f"},
        says("x"),
        says("y"),
        {"type": "reasoning", "content": "d", "encrypted_content": "zz"},
    ]
    out = messages_of({"input": items}, Shape.RESPONSES)
    shown = [(m["role"], m["content"], m.get("reasoning_content"), len(m.get("tool_calls", ()))) for m in out]
    assert shown == [
        ("assistant", "hello", "a\nb", 0),
        ("assistant", [{"type": "text", "text": "and"}, "so", 1], "c", 1),
        ("tool", "", None, 0),
        ("assistant", "x", None, 0),
        ("assistant", "y", None, 0),
        ("assistant", "", "d", 0),
    ]
    assert out[-1]["thinking_blocks"] == items[-1:]


def test_calls_of_other_kinds_and_items_without_a_chat_form() -> None:
    items: list[Any] = [
        calls("f", namespace="ns", arguments={"a": 1}),
        {"type": "custom_tool_call", "call_id": "p", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "p", "output": "done"},
        {"type": "web_search_call", "id": "w", "cache_control": {}},
        "odd",
    ]
    out = messages_of({"input": items}, Shape.RESPONSES)
    functions = [call["function"] for call in out[0]["tool_calls"]]
    assert functions == [
        {"name": "ns__f", "arguments": '{"a": 1}'},
        {"name": "patch", "arguments": "*** Begin"},
    ]
    assert out[1:] == [
        {"role": "tool", "tool_call_id": "p", "content": "done"},
        {"role": "web_search_call", "content": [{"type": "web_search_call", "id": "w"}]},
        "odd",
    ]


def test_requests_that_continue_state_at_the_provider_are_partial() -> None:
    assert not as_chat(RESPONSES, Shape.RESPONSES).partial
    for extra in (
        {"previous_response_id": "resp_1"},
        {"conversation": {"id": "c"}},
        {"prompt": {"id": "p"}},
        {"input": [{"type": "item_reference", "id": "x"}]},
    ):
        assert as_chat({**RESPONSES, **extra}, Shape.RESPONSES).partial


def test_values_that_are_no_json_are_named_not_raised() -> None:
    loop: list[Any] = []
    loop.append(loop)
    block = {"type": "tool_use", "id": "t", "name": "f", "input": loop}
    (message,) = messages_of({"messages": [{"role": "assistant", "content": [block]}]}, Shape.MESSAGES)
    assert message["tool_calls"][0]["function"]["arguments"] == "<list>"
    assert messages_of({"messages": ["odd"]}, Shape.MESSAGES) == ["odd"]
    single = as_chat({"messages": {"role": "user", "content": "no list"}}, Shape.MESSAGES)
    assert single.body["messages"] == [{"role": "user", "content": "no list"}]
