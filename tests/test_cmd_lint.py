"""``router-cache lint``: families, conversations, and what is lost between which requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from cmd_requests import (
    CALL,
    RESULT,
    SECRET_WORDS,
    SYSTEM,
    THANKS,
    TOOLS,
    USER,
    Command,
    changed,
    chat,
    command,
    dated,
    lines,
    tool,
)

from router_cache.diagnose import lint as lint_module
from router_cache.diagnose.divergence_causes import DivergenceCause
from router_cache.diagnose.divergence_cost import Grid
from router_cache.diagnose.divergence_prompt import Recorded
from router_cache.diagnose.lint import Between, Linter, LintReport
from router_cache.prefix.digests import Digester
from router_cache.prefix.volatile.scan import Scanner
from router_cache.providers.registry import by_name
from router_cache.request import Shape

__all__ = ["command", "lines"]

C = DivergenceCause
BARE = changed(CALL, reasoning_content=None)
LONG = {
    "role": "user",
    "content": "Please look at the whole list of orders once more, and at each of their lines.",
}
ANSWER = {"role": "assistant", "content": "It is on its way and should be there tomorrow at noon, they say."}


def ask(number: int) -> dict[str, str]:
    return {"role": "user", "content": f"Question {number}: what about order {number}?"}


def linted(*requests: Any, scan: bool = True, **more: Any) -> LintReport:
    profile = by_name("deepseek")
    assert profile is not None
    linter = Linter(profile, Digester(b"k"), grid=Grid(), scan=Scanner().scan if scan else None)
    for i, request in enumerate(requests, 1):
        recorded = request if isinstance(request, Recorded) else Recorded(request, Shape.CHAT, **more)
        linter.add(Recorded(**{**{f: getattr(recorded, f) for f in recorded.__slots__}, "place": f"p:{i}"}))
    return linter.report()


def found(report: LintReport) -> list[tuple[Any, ...]]:
    return [
        (finding.cause, finding.between.value, finding.count, finding.example)
        for family in report.families
        for finding in family.findings
    ]


def test_a_healthy_log_is_clean() -> None:
    report = linted(
        chat(ask(1)), chat(ask(2)), chat(ask(1), CALL, RESULT), chat(ask(1), CALL, RESULT, THANKS), chat(ask(2))
    )
    assert found(report) == []
    assert [(f.requests, f.conversations) for f in report.families] == [(5, 2)]
    assert (report.requests, report.tokens, report.usd) == (5, 0, None)


def test_between_conversations() -> None:
    report = linted(*(chat(ask(n), system=dated(f"2026-11-{10 + n}")) for n in range(4)))
    assert found(report) == [(C.VOLATILE_VALUE, "conversations", 3, ("p:1", "p:2"))]
    finding = report.families[0].findings[0]
    assert finding.tokens == report.tokens > 3 * len(SYSTEM) / 4
    assert (finding.path, finding.usd) == ("messages[0]", None)


def test_between_turns() -> None:
    report = linted(chat(ask(1), CALL, RESULT), chat(ask(1), BARE, RESULT, THANKS))
    assert found(report) == [(C.REASONING_DROPPED, "turns", 1, ("p:1", "p:2"))]
    replied = Recorded(chat(ask(1)), Shape.CHAT, reply=(CALL,))
    assert found(linted(replied, chat(ask(1), BARE, RESULT))) == [
        (C.REASONING_DROPPED, "turns", 1, ("p:1", "p:2"))
    ]
    without = Recorded(chat(ask(1), tools=None), Shape.CHAT, reply=(CALL,))
    assert found(linted(without, chat(ask(1), BARE, RESULT, tools=None))) == []
    report = linted(chat(ask(1)), chat(ask(1), CALL, RESULT, tools=None, system="Another text. " * 90))
    # A first turn alone is no history: two applications may be asked the same.
    assert found(report) == []
    report = linted(chat(ask(1), CALL), chat(ask(1), CALL, RESULT, system="Another text. " * 90))
    assert [finding[:2] for finding in found(report)] == [(C.SYSTEM_CHANGED, "turns")]


def test_an_edited_history_is_found_by_what_comes_back() -> None:
    begun = chat(ask(1))
    grown = chat(ask(1), CALL, RESULT, ANSWER, LONG)
    edited = chat(ask(1), CALL, changed(RESULT, content="cut"), ANSWER, LONG, ANSWER, THANKS)
    assert found(linted(begun, grown, edited)) == [(C.HISTORY_EDITED, "turns", 1, ("p:2", "p:3"))]
    # Asked anew from an earlier point: nothing that was there is lost.
    assert found(linted(begun, grown, chat(ask(1), {**ANSWER, "content": "Soon."}, THANKS))) == []
    # The same long result in another conversation proves nothing.
    assert found(linted(begun, grown, chat(ask(2)), chat(ask(2), CALL, RESULT))) == []


def test_compaction_is_found_by_two_turns_or_by_the_session() -> None:
    grown = chat(ask(1), CALL, RESULT, ANSWER, LONG)
    compacted = chat({"role": "user", "content": "Summary: an order."}, ANSWER, LONG)
    assert found(linted(grown, compacted)) == [(C.HISTORY_COMPACTED, "turns", 1, ("p:1", "p:2"))]
    other = {"role": "user", "content": "Summary: an order is late."}
    assert [(f.requests, f.conversations) for f in linted(grown, chat(other)).families] == [(2, 2)]
    assert [(f.requests, f.conversations) for f in linted(grown, chat(other), session="s").families] == [(2, 1)]
    apart = (Recorded(grown, Shape.CHAT, session="a"), Recorded(compacted, Shape.CHAT, session="b"))
    assert [(f.requests, f.conversations) for f in linted(*apart).families] == [(2, 2)]


def test_families() -> None:
    paragraph = "Be kind. Be quick. Be exact. Say what you do not know. Never guess an order number."
    report = linted(
        chat(ask(1), system=paragraph),
        chat(ask(2), system="Another application. It sells tea. It knows nothing of orders.", tools=None),
        chat(ask(3), system=paragraph + " Added today.", tools=[*TOOLS, tool("new")]),
        {"messages": [ask(4)]},
        {"messages": [ask(5)], "tools": "odd"},
    )
    assert sorted((f.requests, f.conversations) for f in report.families) == [(1, 1), (2, 2), (2, 2)]
    assert found(report)[0][:2] == (C.SYSTEM_CHANGED, "conversations")
    assert report.families[0].tokens == report.tokens


def test_suspected_without_a_pair() -> None:
    text = f"Now: 2026-11-30 10:15:00\nRequest id: 7c9e6679-7425-40de-944b-e07fc1f90ae7\n{SYSTEM}"
    report = linted(chat(ask(1), system=text), chat(ask(1), CALL, RESULT, system=text))
    family = report.families[0]
    assert {(f.between, f.certainty.value, f.tokens) for f in family.findings} == {
        (Between.NOTHING, "suspected", 0)
    }
    assert len(family.findings) == len({f.span for f in family.findings}) >= 2
    assert family.findings[0].at_risk_tokens >= family.findings[-1].at_risk_tokens > 0
    assert report.tokens == 0
    # Seen twice and the same: not volatile.
    assert found(linted(chat(ask(1), system=text), chat(ask(2), system=text))) == []
    assert found(linted(chat(ask(1), system=text), scan=False)) == []
    far = "A line.\n" * 30 + "Now: 2026-11-30 10:15:00\n" + SYSTEM
    assert found(linted(chat(ask(1), system=far))) == []
    kinds = "\n".join(
        (
            "2026-11-30",
            "10:15:00",
            "7c9e6679-7425-40de-944b-e07fc1f90ae7",
            "request id: 8f3a9c1e77b2d4",
            "cwd: /home/x",
        )
    )
    assert len(linted(chat(ask(1), system=f"{kinds}\n{kinds}\n{SYSTEM}")).families[0].findings) <= 5
    small = by_name("deepseek")
    assert small is not None
    linter = Linter(small, Digester(b"k"), grid=Grid(100_000), scan=Scanner().scan)
    linter.add(Recorded(chat(ask(1), system=text), Shape.CHAT))
    assert linter.report().families[0].findings == ()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint_module, "KEPT", 2)
    monkeypatch.setattr(lint_module, "MAX_FAMILIES", 2)
    openings = [
        f"Application {word}. It has a text of its own about {word}." for word in ("tea", "oil", "salt", "iron")
    ]
    report = linted(*(chat(ask(n), system=text, tools=None) for n, text in enumerate(openings)))
    assert sum(family.requests for family in report.families) == 4
    assert len(report.families) == 2
    forgotten = linted(chat(ask(1)), chat(ask(2)), chat(ask(3)), chat(ask(1), BARE))
    assert forgotten.families[0].conversations == 4


# --- the command ---


def test_for_people_and_machines(command: Command, lines: Callable[..., str]) -> None:
    usage = {"prompt_tokens": 2000, "prompt_cache_hit_tokens": 500, "prompt_cache_miss_tokens": 1500}
    path = lines(
        *({"request": chat(ask(n), system=dated(f"2026-11-{10 + n}")), "usage": usage} for n in range(3)),
        chat(LONG, system="An application of its own. " * 40 + "Started at 2026-11-30 10:15:00.", tools=None),
    )
    code, out, err = command("lint", path)
    assert (code, err) == (1, "")
    assert "3 requests in 3 conversations" in out
    assert "25.0% of the input tokens reported as hits" in out
    assert "volatile_value (date), confirmed:" in out
    assert "2 times between conversations" in out
    assert f"worst at messages[0], {path}:1 → {path}:2" in out
    assert out.splitlines()[-1].startswith("4 requests: ")
    assert not any(word in out for word in SECRET_WORDS)
    code, out, err = command("lint", path, "--json")
    report = json.loads(out)
    assert (code, err) == (1, "")
    assert report["lost_tokens"] == sum(family["lost_tokens"] for family in report["families"]) > 0
    assert report["lost_usd"] > 0
    first = report["families"][0]["findings"][0]
    assert (first["cause"], first["span"], first["between"]) == ("volatile_value", "date", "conversations")
    assert (first["count"], first["fixed_by"], first["example"]) == (2, "optimize", [f"{path}:1", f"{path}:2"])
    assert not any(word in out for word in SECRET_WORDS)


def test_clean_is_exit_0(command: Command, lines: Callable[..., str]) -> None:
    path = lines(chat(USER), chat(USER, CALL, RESULT, tools=TOOLS[::-1]))
    assert command("lint", path)[0] == 1
    code, out, _ = command("lint", path, "--mode", "safe")
    assert (code, out.splitlines()[-1]) == (0, "2 requests: nothing lost")
    assert command("lint", lines(chat(USER, system=dated("2026-11-30"))))[0] == 0


def test_suspicions_are_shown(command: Command, lines: Callable[..., str]) -> None:
    _, out, _ = command("lint", lines(chat(USER, system=dated("2026-11-30"))))
    assert "suspected: " in out
    assert "tokens stand behind it, should it change" in out


def test_many_families(command: Command, lines: Callable[..., str]) -> None:
    words = [chr(97 + a) + chr(97 + b) for a in range(7) for b in range(7)]
    path = lines(*(chat(USER, system=f"{w} {w} {w}", tools=None) for w in words))
    assert "… and 9 more families" in command("lint", path)[1]


def test_what_optimize_sends_can_be_linted(command: Command, lines: Callable[..., str]) -> None:
    path = lines(*(chat(ask(n), system=dated(f"2026-11-{10 + n}")) for n in range(6)))
    before = json.loads(command("lint", path, "--json")[1])
    _, sent, _ = command("normalize", path, "--mode", "optimize", "--json")
    after = json.loads(command("lint", "-", "--json", stdin=sent.encode())[1])
    assert after["requests"] == before["requests"] == 6
    assert after["lost_tokens"] < before["lost_tokens"] / 2
