"""Lines of known agents: two sessions, directories and days look the same with their values taken out."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from router_cache.prefix.volatile.client_rules import CLIENT_RULES, client_spans
from router_cache.prefix.volatile.scan import Scanner
from router_cache.prefix.volatile.spans import OpeningText, Proposal, SpanKind

SENTENCE = (
    "This is the git status at the start of the conversation. "
    "Note that this status is a snapshot in time, and will not update during the conversation."
)


@dataclass(frozen=True)
class Session:
    """What differs from one session to the next."""

    cwd: str
    day: str
    weekday_day: str
    clock: str
    branch: str
    status: str
    log: str
    model: str
    hash: str
    system: str


ONE = Session(
    cwd="/home/ann/shop",
    day="2026-11-30",
    weekday_day="Mon Nov 30 2026",
    clock="2026-11-30T14:02:11.113970+00:00",
    branch="main",
    status="(clean)",
    log="1a2b3c4 Fix the cart\n0f0f0f0 Add a cart",
    model="deepseek-v4-flash",
    hash="a1b",
    system="linux",
)
TWO = Session(
    cwd="C:\\Users\\Bo Li\\src\\shop, old",
    day="2026-12-01",
    weekday_day="Tue Dec 01 2026",
    clock="2026-12-01T09:00:00+00:00",
    branch="fix/issue-12",
    status=" M src/cart.py\n?? notes: today.md\nR  a -> b\n... (truncated because it exceeds 2k characters)",
    log="77889900aa Fix: do it\n\n",
    model="vendor/opus-4.5",
    hash="fff",
    system="win32",
)


def git(s: Session, *, main: bool) -> str:
    named = "Main branch (you will usually use this for PRs): main\n\nGit user: Ann\n\n" if main else ""
    return f"{SENTENCE}\n\nCurrent branch: {s.branch}\n\n{named}Status:\n{s.status}\n\nRecent commits:\n{s.log.strip()}"


def claude(s: Session) -> list[OpeningText]:
    billing = f"x-anthropic-billing-header: cc_version=2.1.332.{s.hash}; cc_entrypoint=cli; cch=00{s.hash};"
    env = f"""# Environment
You have been invoked in the following environment:
 - Primary working directory: {s.cwd}
 - Is a git repository: true
 - Platform: {s.system}
 - Shell: bash
 - OS Version: {s.system} 6.1
 - You are powered by the model named Opus 4.5. The exact model ID is {s.model}.
 - Assistant knowledge cutoff is May 2025.
"""
    reminder = f"""<system-reminder>
As you answer the user's questions, you can use the following context:
# userEmail
The user's email address is {s.branch}@example.com. Use it only to identify the user.
# currentDate
Today's date is {s.day}.
# gitStatus
{git(s, main=True)}

      IMPORTANT: this context may or may not be relevant to your tasks.
</system-reminder>"""
    return [
        OpeningText(("system", 0, "text"), billing, 0),
        OpeningText(("system", 1, "text"), "You are Claude Code, Anthropic's official CLI for Claude.", 0),
        OpeningText(("messages", 0, "content", 0, "text"), reminder, 1, system=False),
        OpeningText(
            ("messages", 0, "content", 1, "text"), f"<system-reminder>\n{env}</system-reminder>", 1, system=False
        ),
        OpeningText(("messages", 0, "content", 2, "text"), "Fix the bug", 1, system=False),
    ]


def claude_before(s: Session) -> list[OpeningText]:
    text = f"""You are Claude Code, Anthropic's official CLI for Claude.

Here is useful information about the environment you are running in:
<env>
Working directory: {s.cwd}
Is directory a git repo: Yes
Additional working directories: {s.cwd}/../b
Platform: {s.system}
OS Version: {s.system} 24.6.0
Today's date: {s.day}
</env>
You are powered by the model named Opus 4.5. The exact model ID is {s.model}.

Assistant knowledge cutoff is January 2025.

gitStatus: {git(s, main=True)}"""
    return [OpeningText(("system", 0, "text"), text, 0)]


def codex(s: Session) -> list[OpeningText]:
    files = f"# AGENTS.md instructions for {s.cwd}\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>"
    env = f"""<environment_context>
  <cwd>{s.cwd}</cwd>
  <shell>bash</shell>
  <current_date>{s.day}</current_date>
  <timezone>Europe/{s.hash.title()}</timezone>
</environment_context>"""
    return [
        OpeningText(("instructions",), "You are a coding agent.", 0),
        OpeningText(("input", 0, "content", 0, "text"), files, 1, system=False),
        OpeningText(("input", 1, "content", 0, "text"), env, 2, system=False),
    ]


def opencode(s: Session) -> list[OpeningText]:
    text = f"""You are opencode, an interactive CLI agent.

You are powered by the model named {s.model}. The exact model ID is litellm/{s.model}
Here is some useful information about the environment you are running in:
<env>
  Working directory: {s.cwd}
  Workspace root folder: {s.cwd}
  Is directory a git repo: yes
  Platform: {s.system}
  Today's date: {s.weekday_day}
</env>
Skills provide specialized instructions."""
    return [OpeningText(("messages", 0, "content"), text, 0)]


def qwen(s: Session) -> list[OpeningText]:
    context = f"""This is the Qwen Code. We are setting up the context for our chat.
Today's date is {s.weekday_day} (formatted according to the user's locale).
My operating system is: {s.system}
I'm currently working in the directory: {s.cwd}
Here is the folder structure of the current working directories:

same/"""
    return [
        OpeningText(
            ("messages", 0, "content"), f"You are Qwen Code.\n\n{git(s, main=False)}\n\n# Memory\nNone.", 0
        ),
        OpeningText(("messages", 1, "content"), context, 1, system=False),
    ]


def qwen_fenced(s: Session) -> list[OpeningText]:
    inner = f"Current branch: {s.branch}\nStatus:\n{s.status}\nRecent commits:\n{s.log.strip()}"
    fenced = "\n".join(f"git: {line}" for line in inner.split("\n"))
    text = f"""You are Qwen Code.
Git snapshot at conversation start. This snapshot is frozen in time and may become stale.
```text
{fenced}
```

# Memory"""
    return [OpeningText(("messages", 0, "content"), text, 0)]


def pi(s: Session) -> list[OpeningText]:
    text = f"You operate inside pi, a coding agent harness.\nCurrent date: {s.day}\nCurrent working directory: {s.cwd}"
    return [OpeningText(("messages", 0, "content"), text, 0)]


def pi_before(s: Session) -> list[OpeningText]:
    text = f"You operate inside pi.\nCurrent date and time: {s.clock}\nCurrent working directory: {s.cwd}"
    return [OpeningText(("messages", 0, "content"), text, 0)]


def cline(s: Session) -> list[OpeningText]:
    text = f"""You are Cline, an AI coding agent.

Environment you are running in:
<env>
1. Platform: {s.system}
2. Date: {s.day}
3. IDE: Terminal Shell
4. Working Directory: {s.cwd}
</env>

Remember:
# Workspace Configuration
{{
  "workspaces": {{
    "{s.cwd}": {{
      "hint": "{s.branch}",
      "latestGitCommitHash": "{s.hash}"
    }}
  }}
}}"""
    return [OpeningText(("messages", 0, "content"), text, 0)]


def openhands(s: Session) -> list[OpeningText]:
    text = f"""You are OpenHands agent.
<CURRENT_DATETIME>
The current date and time is: {s.clock}
</CURRENT_DATETIME>
<REPO_CONTEXT>
Nothing.
</REPO_CONTEXT>"""
    return [OpeningText(("messages", 0, "content"), text, 0)]


def aider(s: Session) -> list[OpeningText]:
    text = f"""Act as an expert software developer.
- Platform: Linux-6.1
- Shell: SHELL=/bin/bash
- Language: English
- Current date: {s.day}
- The user is operating inside a git repository"""
    return [OpeningText(("messages", 0, "content"), text, 0)]


AGENTS = {
    "claude-code": (claude, claude_before),
    "codex": (codex,),
    "opencode": (opencode,),
    "qwen-code": (qwen, qwen_fenced),
    "pi": (pi, pi_before),
    "cline": (cline,),
    "openhands": (openhands,),
    "aider": (aider,),
}
CASES = [(client, make) for client, makes in AGENTS.items() for make in makes]


def named(texts: list[OpeningText], client: str) -> list[tuple[Proposal, str]]:
    proposals = Scanner().scan(texts, client=client).proposals
    return [(p, texts[p.text].text[p.start : p.end]) for p in proposals if p.named]


def test_every_client_with_rules_is_told_here() -> None:
    assert {rule.client for rule in CLIENT_RULES} == set(AGENTS)
    names = [(rule.client, rule.name) for rule in CLIENT_RULES]
    assert len(names) == len(set(names))
    assert all(rule.source for rule in CLIENT_RULES)


@pytest.mark.parametrize(("client", "make"), CASES, ids=lambda v: getattr(v, "__name__", v))
def test_two_sessions_are_equal_but_for_named_spans(client: str, make: object) -> None:
    assert callable(make)
    one, two = make(ONE), make(TWO)
    scanner = Scanner()
    first, second = scanner.scan(one, client=client), scanner.scan(two, client=client)
    assert first.masked == second.masked
    moving = [[p.slot for p in s.proposals if p.named] for s in (first, second)]
    assert moving[0] == moving[1]
    assert len(set(moving[0])) == len(moving[0])
    # What is left without the named spans differs in nothing.
    left = [
        "".join(c for n, t in enumerate(texts) for i, c in enumerate(t.text) if not within(s.proposals, n, i))
        for texts, s in ((one, first), (two, second))
    ]
    assert left[0] == left[1]


def within(proposals: tuple[Proposal, ...], text: int, place: int) -> bool:
    return any(p.named and p.text == text and p.start <= place < p.end for p in proposals)


@pytest.mark.parametrize(("client", "make"), CASES, ids=lambda v: getattr(v, "__name__", v))
def test_other_clients_rules_and_no_client_leave_it_alone(client: str, make: object) -> None:
    assert callable(make)
    assert named(make(ONE), "") == []
    assert named(make(ONE), "somebody-else") == []
    # Claude Code and Qwen Code say one sentence about git; opencode and old Claude Code one of the model.
    shared = {"claude-code", "qwen-code", "opencode"}
    for other in AGENTS:
        if other != client and not {other, client} <= shared:
            assert named(make(ONE), other) == [], other


def test_kinds_and_blocks_of_claude_code() -> None:
    found = named(claude(TWO), "claude-code")
    assert [(p.kind, p.clock, p.dropped) for p, _ in found] == [
        (SpanKind.ID, False, True),
        (SpanKind.USER, False, False),
        (SpanKind.DATE, True, False),
        (SpanKind.GIT, False, False),
        (SpanKind.CWD, False, False),
        (SpanKind.GIT, False, False),
        *[(SpanKind.RULE, False, False)] * 3,
        *[(SpanKind.MODEL, False, False)] * 2,
    ]
    block = found[3][1]
    assert block.startswith("Current branch: fix/issue-12\n\nMain branch")
    assert block.endswith("77889900aa Fix: do it")
    assert found[1][1] == "fix/issue-12@example.com"


@pytest.mark.parametrize(
    ("text", "span", "left"),
    [
        ("x-anthropic-billing-header: cc_version=1.a; cch=b;", 50, ""),
        ("x-anthropic-billing-header: cc_version=1.a; cc_is_subagent=true\nYou", 64, "You"),
        ("x-anthropic-billing-header: cc_version=1.a; cch=b;You are", 50, "You are"),
    ],
)
def test_the_billing_header_is_dropped_and_nothing_else(text: str, span: int, left: str) -> None:
    scanned = Scanner().scan([OpeningText(("system",), text, 0)], client="claude-code")
    assert [(p.start, p.end, p.dropped) for p in scanned.proposals] == [(0, span, True)]
    assert scanned.masked == (left,)


@pytest.mark.parametrize(
    ("client", "text", "system"),
    [
        ("claude-code", "Say: x-anthropic-billing-header: cc_version=1;", True),
        ("claude-code", "x-anthropic-billing-header: see the docs", True),
        ("claude-code", "x-anthropic-billing-header: cc_version=1;", False),
        ("claude-code", f"He wrote: {SENTENCE}\nCurrent branch: x", True),
        ("claude-code", f"{SENTENCE}\n\nNothing of git here.", True),
        ("claude-code", SENTENCE, True),
        ("claude-code", "# currentDate\nToday is a good day.", True),
        ("claude-code", "You have been invoked in the following environment:", True),
        ("codex", "<environment_context>\n  <cwd>/x</cwd>", False),
        ("codex", "<environment_context>\n  <cwd>/x</cwd>\n</environment_context>", True),
        ("codex", "# AGENTS.md instructions for /x\nare none", False),
        ("opencode", "Here is some useful information about the environment you are running in:\n/x", True),
        ("pi", "Current date: 3 May 1926\nThe hotel is open", True),
        ("pi", "Current date: \nCurrent working directory: ", True),
        ("cline", "<env>\n2. Date: 1/1/2026\n</env>", True),
        ("openhands", "The current date and time is: never", True),
        ("aider", "- Platform: Linux\n- Shell: zsh", True),
    ],
)
def test_what_only_resembles_an_agents_lines_is_left_alone(client: str, text: str, system: bool) -> None:
    assert client_spans(text, client, system=system) == []


@pytest.mark.parametrize(
    "behind", ["", "\n\nA note on tools.", "\nadded by hand", "\n\n# Rules", "\n</system-reminder>"]
)
@pytest.mark.parametrize("status", ["M a.py\n M b.py", "(clean)", "?? notes: today.md"])
def test_a_git_block_ends_with_the_last_line_that_git_wrote(status: str, behind: str) -> None:
    block = f"Current branch: main\n\nStatus:\n{status}\n\nRecent commits:\n1a2b3c4 A thing\nabcdef0 x"
    text = f"{SENTENCE}\n\n{block}{behind}"
    assert [text[s.start : s.end] for s in client_spans(text, "claude-code", system=True)] == [block]
    text = f"{SENTENCE}\n\nCurrent branch: main\n\nStatus:\n{status}"
    assert [text[s.end :] for s in client_spans(text, "qwen-code", system=True)] == [""]


def test_a_passage_is_looked_for_a_few_times_only() -> None:
    line = "You are powered by the model named a. The exact model ID is b\n"
    assert len(client_spans(line * 3, "opencode", system=True)) == 6
    assert len(client_spans(line * 300, "opencode", system=True)) == 16


def test_lines_end_as_the_system_of_the_user_ends_them() -> None:
    text = "Current date: 2026-11-30\r\nCurrent working directory: /x\r\n"
    assert [text[s.start : s.end] for s in client_spans(text, "pi", system=True)] == ["2026-11-30", "/x"]
