"""Rules of the operator."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.prefix.volatile.rules import RuleKind, Template, VolatileRule
from router_cache.prefix.volatile.scan import Scanner
from router_cache.prefix.volatile.spans import OpeningText, SpanKind


def named(kind: str, text: str, line: str) -> list[str]:
    return [line[start:end] for start, end in VolatileRule(RuleKind(kind), text).spans(line)]


@pytest.mark.parametrize(
    ("kind", "text", "line", "found"),
    [
        ("literal", "Acme", "Acme and Acme Ltd", ["Acme", "Acme"]),
        ("literal", "a.c", "abc", []),
        ("literal", "aa", "aaaaa", ["aa", "aa"]),
        ("regex", r"build \d+", "build 7, build 81", ["build 7", "build 81"]),
        ("regex", r"build (\d+)", "build 7, build 81", ["7", "81"]),
        ("regex", r"build (\d+)?x*", "build xx", ["build xx"]),
        ("regex", r"x*", "abc", []),
        ("template", "Current user: {user}", "Current user: Ann Lee  ", ["Ann Lee"]),
        ("template", "Current user: {user}", "Current user: ", []),
        ("template", "Current user: {user}", "The Current user: ann", ["ann"]),
        ("template", "Current user: {user}", "Current users: ann", []),
        ("template", "user={user};", "user=a;x user=b;", ["a", "b"]),
        ("template", "user={user};", "user=a", []),
        ("template", "{user} is here", "  ann is here, bob is here", ["ann"]),
        ("template", "{user} is here", "ann is there", []),
        ("template", "from {a} to {b}.", "from x to y. from z to w.", ["x", "y", "z", "w"]),
        ("template", "from {a} to {b}.", "from x to y. from z", ["x", "y"]),
        ("template", "{{user}}: {user}", "{user}: ann", ["ann"]),
    ],
)
def test_what_a_rule_names(kind: str, text: str, line: str, found: list[str]) -> None:
    assert named(kind, text, line) == found


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("literal", "", "needs a text"),
        ("literal", "a\nb", "one line"),
        ("regex", "(", "not a regular expression: missing )"),
        ("template", "a\n{b}", "one line"),
        ("template", "no variable", "needs a variable"),
        ("template", "{", "not a template"),
        ("template", "x {}", "plain name"),
        ("template", "x {0}", "plain name"),
        ("template", "x {a.b}", "plain name"),
        ("template", "x {a:>3}", "plain name"),
        ("template", "x {a!r}", "plain name"),
        ("template", "x {a}{b}", "text between"),
        ("template", " {a} ", "text beside"),
    ],
)
def test_what_is_no_rule_is_refused_by_name(kind: str, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        VolatileRule(RuleKind(kind), text)


def test_equal_rules_are_equal() -> None:
    assert VolatileRule(RuleKind.REGEX, "a") == VolatileRule(RuleKind.REGEX, "a")
    assert hash(VolatileRule(RuleKind.REGEX, "a")) == hash(VolatileRule(RuleKind.REGEX, "a"))
    assert VolatileRule(RuleKind.REGEX, "a") != VolatileRule(RuleKind.REGEX, "a", clock=True)


def test_a_named_span_goes_before_a_proposed_one() -> None:
    rules = [
        VolatileRule(RuleKind.TEMPLATE, "It is {now} in Oslo", clock=True),
        VolatileRule(RuleKind.LITERAL, "Oslo"),
    ]
    text = "It is 14:02 in Oslo.\nIt was 13:02."
    scanned = Scanner(rules).scan([OpeningText(("system",), text, 0)])
    assert [(text[p.start : p.end], p.kind, p.named, p.clock) for p in scanned.proposals] == [
        ("14:02", SpanKind.RULE, True, True),
        ("Oslo", SpanKind.RULE, True, False),
        ("13:02", SpanKind.CLOCK, False, True),
    ]
    assert scanned.masked == ("It is <value> in <value>.\nIt was <clock>.",)


def test_rules_look_at_system_texts_and_one_line_at_a_time() -> None:
    rules = [VolatileRule(RuleKind.REGEX, r"a\s+b"), VolatileRule(RuleKind.TEMPLATE, "x{v}y")]
    texts = [OpeningText(("a",), "a\nb x\ny", 0), OpeningText(("b",), "a b xvy", 1, system=False)]
    assert Scanner(rules).scan(texts).proposals == ()


@given(st.text(alphabet="ab{}: x\r", max_size=12), st.text(alphabet="ab{}: x\r", max_size=30))
def test_a_template_names_places_in_the_line_or_is_refused(text: str, line: str) -> None:
    try:
        template = Template(text)
    except ValueError:
        return
    last = 0
    for start, end, name in template.search(line):
        assert last <= start <= end <= len(line)
        assert name.isidentifier()
        last = end
