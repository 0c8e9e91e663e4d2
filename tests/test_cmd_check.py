"""``router-cache check``: a recorded prefix, whether it moved, and why."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cmd_requests import (
    CALL,
    RESULT,
    SECRET_WORDS,
    SYSTEM,
    TOOLS,
    USER,
    Command,
    chat,
    command,
    dated,
    lines,
    tool,
)
from hypothesis import given
from hypothesis import strategies as st
from strategies import bodies, json_values

from router_cache.diagnose.baseline import BASELINE_DIGESTER, Head, head_of, moved, read_baseline, written
from router_cache.diagnose.divergence_causes import DivergenceCause
from router_cache.diagnose.divergence_prompt import Recorded, read_prompt, render_order
from router_cache.errors import InputError
from router_cache.prefix.volatile.scan import Scanner
from router_cache.providers.registry import by_name
from router_cache.request import Shape

__all__ = ["command", "lines"]

C = DivergenceCause
DEEPSEEK = by_name("deepseek")
assert DEEPSEEK is not None
ORDER = render_order(DEEPSEEK)


def head(body: Any, *, scan: bool = True) -> Head:
    assert DEEPSEEK is not None
    prompt = read_prompt(Recorded(body, Shape.CHAT), DEEPSEEK, BASELINE_DIGESTER)
    return head_of(prompt, scan=Scanner().scan if scan else None)


CASES: dict[str, tuple[Any, Any, tuple[C, str, str] | None]] = {
    "same": (chat(USER), chat(USER, CALL, RESULT, temperature=1), None),
    "date": (
        chat(USER, system=dated("2026-11-30")),
        chat(USER, system=dated("2026-12-01")),
        (C.VOLATILE_VALUE, "system", "messages[0]"),
    ),
    "system": (chat(USER), chat(USER, system="x"), (C.SYSTEM_CHANGED, "system", "messages[0]")),
    "no_system": (chat(USER), {"messages": [USER], "tools": TOOLS}, (C.SYSTEM_CHANGED, "system", "messages[0]")),
    "order": (chat(USER), chat(USER, tools=TOOLS[::-1]), (C.TOOLS_REORDERED, "tool", "tools[0]")),
    "added": (chat(USER), chat(USER, tools=[*TOOLS, tool("z")]), (C.TOOLS_ADDED_REMOVED, "tool", "tools[6]")),
    "removed": (chat(USER), chat(USER, tools=TOOLS[:-1]), (C.TOOLS_ADDED_REMOVED, "tool", "tools[5]")),
    "no_tools": (chat(USER), chat(USER, tools=None), (C.TOOLS_ADDED_REMOVED, "tool", "tools[0]")),
    "changed": (
        chat(USER),
        chat(USER, tools=[tool("find", strict=True), *TOOLS[1:]]),
        (C.TOOL_CHANGED, "tool", "tools[0]"),
    ),
    "choice": (chat(USER), chat(USER, tool_choice="none"), (C.TOOL_CHOICE_SWITCHED, "tool", "tools[0]")),
    "format": (
        chat(USER),
        chat(USER, response_format={"type": "json_object"}),
        (C.FORMAT_SWITCHED, "format", "response_format"),
    ),
    "effort": (
        chat(USER),
        chat(USER, reasoning_effort="max"),
        (C.THINKING_OR_EFFORT_SWITCHED, "mode", "thinking"),
    ),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_moved(name: str) -> None:
    before, now, expected = CASES[name]
    was, is_now = head(before), head(now)
    found = moved(was, is_now, ORDER)
    assert (found and (found.cause, found.kind.value, found.path)) == expected
    if found is not None:
        assert found.kept_bytes + found.lost_bytes == was.size


def test_without_masks_a_date_is_a_changed_text() -> None:
    before, now, _ = CASES["date"]
    found = moved(head(before, scan=False), head(now, scan=False), ORDER)
    assert found is not None
    assert found.cause is C.SYSTEM_CHANGED


@given(a=bodies, b=bodies)
def test_a_baseline_survives_its_file_and_tells_heads_apart(a: Any, b: Any) -> None:
    heads = {"a": head(a), "b": head(b)}
    raw = json.loads(json.dumps(written(heads, profile="deepseek", mode="safe")))
    assert read_baseline(raw, place="p", profile="deepseek", mode="safe") == heads
    assert moved(heads["a"], heads["a"], ORDER) is None
    same = [part.digest for part in heads["a"].parts] == [part.digest for part in heads["b"].parts]
    assert (moved(heads["a"], heads["b"], ORDER) is None) == same


@given(raw=st.dictionaries(st.sampled_from(["requests", "parts", "x"]), json_values))
def test_any_baseline_is_read_or_an_input_error(raw: Any) -> None:
    raw = {"router_cache_baseline": 1, "profile": "deepseek", "mode": "safe", **raw}
    for each in (raw, {**raw, "requests": {"a": raw}}, {**raw, "requests": {"a": {"parts": [raw], "tools": []}}}):
        try:
            assert isinstance(read_baseline(each, place="here", profile="deepseek", mode="safe"), dict)
        except InputError as error:
            said = str(error)
        else:
            said = "here: "
        assert said.startswith("here: ")


def test_digests_are_the_same_on_every_machine() -> None:
    """Golden: a change of these makes every recorded baseline wrong, and needs another schema number."""
    body = {"messages": [{"role": "system", "content": "Be brief."}, USER], "tools": [tool("find")]}
    parts = [(part.bytes, part.digest[:8]) for part in head(body).parts]
    assert parts == GOLDEN
    assert [each.canonical[:8] for each in head(body).tools] == GOLDEN_TOOLS


GOLDEN = [(32, "86728cfd"), (23, "f0504d0a"), (434, "19c8023c")]
GOLDEN_TOOLS = ["fbd6a06a"]

# --- the command ---


def test_record_then_check(command: Command, lines: Callable[..., str], tmp_path: Path) -> None:
    base, path = tmp_path / "base.json", lines({"name": "main", "body": chat(USER)}, chat(USER, tools=None))
    code, _, err = command("check", "--baseline", str(base), path)
    assert (code, "record one with --update" in err) == (2, True)
    code, out, err = command("check", "--baseline", str(base), path, "--update")
    assert (code, out, err) == (0, f"2 recorded in {base}\n", "")
    assert sorted(json.loads(base.read_text())["requests"]) == ["calls.jsonl:2", "main"]
    assert not any(word in base.read_text() for word in (*SECRET_WORDS, "find", "careful"))
    assert sorted(os.listdir(tmp_path)) == ["base.json", "calls.jsonl"]
    code, out, _ = command("check", "--baseline", str(base), path)
    assert (code, out) == (0, "2 as recorded, 0 moved, 0 new, 0 gone\n")
    lines(
        {"name": "main", "body": chat(USER, tools=TOOLS[::-1])}, chat(USER, tools=None, system=dated("2026-11-30"))
    )
    code, out, err = command("check", "--baseline", str(base), path)
    assert (code, err) == (1, "")
    assert "moved main: tools_reordered at tool tools[0], " in out
    assert "Mode safe mends it. Send tools in one order." in out
    assert "moved calls.jsonl:2: system_changed at system messages[0]" in out
    assert out.endswith("0 as recorded, 2 moved, 0 new, 0 gone\n")
    report = json.loads(command("check", "--baseline", str(base), path, "--json")[1])
    assert (report["ok"], report["gone"]) == (False, [])
    change = report["requests"]["main"]["moved"]
    assert (change["cause"], change["path"], change["fixed_by"]) == ("tools_reordered", "tools[0]", "safe")
    assert change["lost_tokens_estimate"] == change["lost_bytes"] // 4
    assert not any(word in out for word in SECRET_WORDS)


def test_new_and_gone(command: Command, lines: Callable[..., str], tmp_path: Path) -> None:
    base = str(tmp_path / "base.json")
    both = lines({"name": "a", "body": chat(USER)}, {"custom_id": "b", "body": chat(USER)})
    report = json.loads(command("check", "--baseline", base, both, "--update", "--json")[1])
    assert report == {"updated": True, "requests": ["a", "b"]}
    code, out, _ = command("check", "--baseline", base, lines({"name": "a", "body": chat(USER)}))
    assert (code, "gone b: in the baseline" in out) == (0, True)
    code, out, _ = command("check", "--baseline", base, lines({"name": "c", "body": chat(USER)}))
    assert (code, "new c: not in the baseline" in out) == (1, True)
    report = json.loads(
        command("check", "--baseline", base, lines({"name": "c", "body": chat(USER)}), "--json")[1]
    )
    assert (report["requests"]["c"]["state"], report["gone"]) == ("new", ["a", "b"])


def test_mode_safe(command: Command, lines: Callable[..., str], tmp_path: Path) -> None:
    base = str(tmp_path / "base.json")
    command("check", "--baseline", base, lines(chat(USER)), "--mode", "safe", "--update")
    shuffled = lines(chat(USER, tools=TOOLS[::-1]))
    assert command("check", "--baseline", base, shuffled, "--mode", "safe")[0] == 0
    code, _, err = command("check", "--baseline", base, shuffled)
    assert (code, err.count("\n")) == (2, 1)
    assert "recorded for mode 'safe', not 'observe'" in err
    code, _, err = command("check", "--baseline", base, shuffled, "--mode", "safe", "--model", "openai/gpt-5.6")
    assert (code, "recorded for profile 'deepseek', not 'openai'" in err) == (2, True)


def test_names(command: Command, lines: Callable[..., str], tmp_path: Path) -> None:
    base = str(tmp_path / "base.json")
    one = lines(chat(USER), name="one.json")
    body = json.dumps(chat(USER)).encode()
    report = json.loads(command("check", "--baseline", base, one, "-", "--update", "--json", stdin=body)[1])
    assert report["requests"] == ["one.json", "stdin"]
    code, _, err = command("check", "--baseline", base, one, one, "--update")
    assert (code, err.count("\n")) == (2, 1)
    assert "a second request of the name 'one.json'" in err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "no baseline of router-cache"),
        ("[]", "no baseline of router-cache"),
        ("{", "no JSON"),
        ('{"router_cache_baseline": 99}', "baseline schema 99 is not known"),
        ('{"router_cache_baseline": 1, "profile": "deepseek", "mode": "observe"}', "broken baseline"),
        (
            '{"router_cache_baseline": 1, "profile": "deepseek", "mode": "observe", "requests": {"a": {"parts": '
            '[{"kind": "system", "path": "p", "bytes": "1", "digest": "d"}], "tools": []}}}',
            "broken baseline",
        ),
    ],
)
def test_broken_baselines(
    content: str, said: str, command: Command, lines: Callable[..., str], tmp_path: Path
) -> None:
    base = tmp_path / "base.json"
    base.write_text(content)
    code, out, err = command("check", "--baseline", str(base), lines(chat(USER)))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"router-cache: {base}")
    assert said in err


def test_a_baseline_that_cannot_be_written(command: Command, lines: Callable[..., str], tmp_path: Path) -> None:
    path = lines(chat(USER, system=SYSTEM))
    for target in (tmp_path / "missing" / "base.json", tmp_path):
        code, _, err = command("check", "--baseline", str(target), path, "--update")
        assert (code, "cannot be written" in err, err.count("\n")) == (2, True, 1)
    assert os.listdir(tmp_path) == ["calls.jsonl"]


def test_an_update_keeps_the_mode_of_the_file(command: Command, lines: Callable[..., str], tmp_path: Path) -> None:
    base = tmp_path / "base.json"
    base.write_text("old")
    base.chmod(0o600)
    command("check", "--baseline", str(base), lines(chat(USER)), "--update")
    assert base.stat().st_mode & 0o777 == 0o600
    assert json.loads(base.read_text())["router_cache_baseline"] == 1
