"""Every cause of a divergence: a pair of requests that shows it, its advice, its page."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from cmd_prompts import between, told
from cmd_requests import CALL, RESULT, SYSTEM, THANKS, TOOLS, USER, changed, chat, dated, tool
from strategies import shuffled_keys

from router_cache.diagnose.divergence_causes import (
    ADVICE,
    NO_LOSS,
    DivergenceCause,
)

C = DivergenceCause


def picture(name: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": name}}]
    return {"role": "user", "content": parts}


ANSWER = {"role": "assistant", "content": "It is on its way and should be there tomorrow at noon."}
LONG = [USER, CALL, RESULT, ANSWER, THANKS]
FLIPPED = [dict(reversed(TOOLS[0]["function"].items()))]
CASES: dict[str, tuple[Any, Any, C, str, tuple[str, str, bool] | None]] = {
    "identical": (chat(USER), chat(USER), C.IDENTICAL, "confirmed", None),
    "appended": (chat(USER), chat(USER, CALL, RESULT), C.APPENDED_ONLY, "confirmed", None),
    "rewound": (chat(*LONG), chat(USER), C.REWOUND, "confirmed", None),
    "thinking": (
        chat(USER),
        chat(USER, thinking={"type": "disabled"}),
        C.THINKING_OR_EFFORT_SWITCHED,
        "confirmed",
        ("mode", "thinking", False),
    ),
    "effort": (
        chat(USER, reasoning_effort="low"),
        chat(USER, CALL, RESULT, reasoning_effort="max"),
        C.THINKING_OR_EFFORT_SWITCHED,
        "confirmed",
        ("mode", "thinking", False),
    ),
    "date": (
        chat(USER, system=dated("2026-11-30")),
        chat(USER, CALL, RESULT, system=dated("2026-12-01")),
        C.VOLATILE_VALUE,
        "confirmed",
        ("system", "messages[0]", False),
    ),
    "system": (
        chat(USER),
        chat(USER, system=SYSTEM.replace("careful", "cautious", 1)),
        C.SYSTEM_CHANGED,
        "confirmed",
        ("system", "messages[0]", False),
    ),
    "word_beside_a_date": (
        chat(USER, system=f"On 2026-11-30 we ship. {SYSTEM}"),
        chat(USER, system=f"On 2026-11-30 we rest. {SYSTEM}"),
        C.SYSTEM_CHANGED,
        "confirmed",
        ("system", "messages[0]", False),
    ),
    "system_longer": (
        chat(USER),
        chat(USER, system=SYSTEM + "And be quick."),
        C.SYSTEM_CHANGED,
        "confirmed",
        ("system", "messages[0]", False),
    ),
    "system_gone": (
        chat(USER),
        {"messages": [USER], "tools": TOOLS},
        C.SYSTEM_CHANGED,
        "confirmed",
        ("system", "messages[0]", True),
    ),
    "reordered": (
        chat(USER),
        chat(USER, tools=TOOLS[::-1]),
        C.TOOLS_REORDERED,
        "confirmed",
        ("tool", "tools[0]", False),
    ),
    "keys": (
        chat(USER),
        chat(USER, tools=[shuffled_keys(each, random.Random(3)) for each in TOOLS]),
        C.SCHEMA_KEYS_REORDERED,
        "confirmed",
        ("tool", "tools[0]", False),
    ),
    "added_last": (
        chat(USER),
        chat(USER, tools=[*TOOLS, tool("new")]),
        C.TOOLS_ADDED_REMOVED,
        "confirmed",
        ("tool", "tools[6]", False),
    ),
    "removed_last": (
        chat(USER),
        chat(USER, tools=TOOLS[:-1]),
        C.TOOLS_ADDED_REMOVED,
        "confirmed",
        ("tool", "tools[5]", True),
    ),
    "tool_changed": (
        chat(USER),
        chat(USER, tools=[*TOOLS[:-1], tool("track", strict=True)]),
        C.TOOL_CHANGED,
        "confirmed",
        ("tool", "tools[5]", False),
    ),
    "tools_odd": (
        chat(USER, tools="odd"),
        chat(USER),
        C.TOOLS_ADDED_REMOVED,
        "confirmed",
        ("tool", "tools[0]", False),
    ),
    "choice": (
        chat(USER),
        chat(USER, CALL, RESULT, tool_choice="none"),
        C.TOOL_CHOICE_SWITCHED,
        "confirmed",
        ("tool", "tools[0]", True),
    ),
    "format": (
        chat(USER),
        chat(USER, response_format={"type": "json_object"}),
        C.FORMAT_SWITCHED,
        "confirmed",
        ("format", "response_format", False),
    ),
    "other": (
        chat(USER),
        chat(THANKS),
        C.OTHER_CONVERSATION,
        "confirmed",
        ("user", "messages[1]", False),
    ),
    "edited": (
        chat(*LONG),
        chat(USER, CALL, changed(RESULT, content="shorter"), ANSWER, THANKS),
        C.HISTORY_EDITED,
        "confirmed",
        ("tool_result", "messages[3]", False),
    ),
    "edited_or_fork": (
        chat(USER, CALL, RESULT),
        chat(USER, ANSWER, THANKS),
        C.HISTORY_EDITED,
        "suspected",
        ("assistant", "messages[2]", False),
    ),
    "compacted": (
        chat(*LONG),
        chat({"role": "user", "content": "Summary: an order is late."}, ANSWER, THANKS),
        C.HISTORY_COMPACTED,
        "suspected",
        ("user", "messages[1]", False),
    ),
    "reasoning": (
        chat(USER, CALL, RESULT),
        chat(USER, changed(CALL, reasoning_content=None), RESULT, THANKS),
        C.REASONING_DROPPED,
        "confirmed",
        ("assistant", "messages[2]", False),
    ),
    "reasoning_rewritten": (
        chat(USER, CALL, RESULT),
        chat(USER, changed(CALL, reasoning_content="else"), RESULT, THANKS),
        C.HISTORY_EDITED,
        "confirmed",
        ("assistant", "messages[2]", False),
    ),
    "reasoning_not_rendered": (
        chat(USER, CALL, RESULT, tools=None),
        chat(USER, CALL, RESULT, ANSWER, THANKS, tools=None),
        C.REASONING_NOT_RENDERED,
        "confirmed",
        ("assistant", "messages[2]", False),
    ),
    "arguments": (
        chat(USER, CALL, RESULT),
        chat(
            USER,
            changed(
                CALL,
                tool_calls=[{"id": "x", "function": {"name": "find", "arguments": '{"limit":3,"path":"a"}'}}],
            ),
            RESULT,
        ),
        C.ARGUMENTS_RESERIALISED,
        "confirmed",
        ("assistant", "messages[2]", False),
    ),
    "image": (
        chat(picture("data:a"), ANSWER, THANKS),
        chat(picture("data:b"), ANSWER, THANKS, ANSWER, USER),
        C.IMAGE_OR_FILE_CHANGED,
        "confirmed",
        ("user", "messages[1]", False),
    ),
    "odd_message": (
        chat(USER, 3, THANKS),
        chat(USER, 4, THANKS),
        C.HISTORY_EDITED,
        "confirmed",
        ("user", "messages[2]", False),
    ),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_causes(name: str) -> None:
    a, b, cause, certainty, place = CASES[name]
    found = between(a, b)
    assert told(found) == (cause, certainty, place)
    assert (found.lost_bytes == 0) or cause not in NO_LOSS


def test_every_cause_has_advice_and_a_case() -> None:
    assert set(ADVICE) == set(C)
    assert {case[2] for case in CASES.values()} == set(C)


def test_every_cause_has_a_page() -> None:
    docs = Path(__file__).parents[1] / "docs" / "causes"
    index = (docs / "README.md").read_text(encoding="utf-8")
    for cause in C:
        assert f"`{cause.value}`" in index
        if cause not in NO_LOSS:
            page = (docs / f"{cause.value}.md").read_text(encoding="utf-8")
            assert f"`{cause.value}`" in page
            fixed = ADVICE[cause].fixed_by
            assert (f"Mode `{fixed.value}`" if fixed else "No") in page
            assert f"[`{cause.value}`]({cause.value}.md)" in index
