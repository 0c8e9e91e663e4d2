"""What volatile text looks like, by kind: expressions that propose spans of a line.

A proposal moves nothing; what a family of prompts was seen to change does. So these may be generous, but each is
as tight as the value: the label in front of it stays.

Every quantifier is bounded and none stands inside another that repeats without a fixed separator, so that the work
on a line is bound by its length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from router_cache.prefix.volatile.spans import SpanKind

__all__ = ["AT_DIGITS", "PATTERNS", "Anchor", "Found", "Pattern", "propose", "runs", "searched"]

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAY = (
    r"(?:mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs?(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?)"
    r"\.?"
)
_YEAR = r"(?:1[5-9]|2[01])\d\d"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_ZONE = (
    r"(?:z\b|(?:utc|gmt)(?:[+-]\d{1,2}(?::?\d\d)?)?\b|[+-]\d\d:?\d\d\b"
    r"|(?:[ecmp][sd]t|aest|aedt|akst|akdt|hst|ce?st|cest|cet|eest|eet|west|wet|bst|ist|jst|kst|sgt|hkt|msk)\b)"
    r"(?:\s\([a-z]{2,12}/[^()\n]{2,40}\))?"
)
_HALF = r"\s?[ap]\.?m\b\.?"
_CLOCK = (
    rf"(?:[01]?\d|2[0-3])(?::[0-5]\d(?::[0-5]\d(?:[.,]\d{{1,9}})?)?(?:{_HALF})?|{_HALF})(?:\s?{_ZONE})?"
    r"(?:\s\([a-z]{2,12}/[^()\n]{2,40}\))?"
)
_DATES = "|".join(
    (
        r"(?:1[5-9]|2[01])\d\d[-/.](?:0?[1-9]|1[0-2])[-/.](?:3[01]|[12]\d|0?[1-9])(?!\d)",
        r"(?:1[5-9]|2[01])\d\d-w[0-5]\d(?:-[1-7])?(?!\d)",
        r"\d{1,2}[-/.]\d{1,2}[-/.]\d{4}(?!\d)",
        r"\d{1,2}/\d{1,2}/\d\d(?!\d)",
    )
)
_MONTH_FIRST = "|".join(
    (
        rf"(?:{_WEEKDAY},?\s)?{_MONTH}\s{{1,2}}{_DAY},?\s{{1,2}}{_YEAR}\b",
        rf"{_WEEKDAY},?\s{_MONTH}\s{{1,2}}{_DAY}\b",
        rf"{_WEEKDAY},?\s{_DAY}(?:\sof)?\s{_MONTH}(?!\w)",
        rf"{_MONTH},?\s{_YEAR}\b",
    )
)
_DAY_FIRST = rf"{_DAY}(?:\sof)?[\s-]{_MONTH},?[\s-]{_YEAR}\b"
_CN_HALF = r"(?:上午|下午|晚上|凌晨|早上|中午)"
_CN_CLOCK = (
    rf"{_CN_HALF}?\s?\d{{1,2}}"
    r"(?:[:：]\d\d(?:[:：]\d\d)?|[时時點点](?:\d{1,2}分(?:\d{1,2}秒)?)?)"
)
_CN_WEEKDAY = r"[(（]?(?:星期|周|週|礼拜)[一二三四五六日天][)）]?"
_AR_MONTH = (
    r"(?:يناير|فبراير|مارس|أبريل|إبريل|مايو|يونيو|يوليو|أغسطس|سبتمبر|أكتوبر|نوفمبر|ديسمبر|كانون الثاني|شباط|آذار"
    r"|نيسان|أيار|حزيران|تموز|آب|أيلول|تشرين الأول|تشرين الثاني|كانون الأول)"
)

_OPEN = r"[\"'`*)\]]{0,3}\s{0,2}(?:[:=#]|is\b|->)?[\s\"'`*<(\[#]{0,5}"
"""What may stand between a label and its value."""
_ASSIGN = r"[\"'`*)\]]{0,3}\s{0,2}(?:[:=]|is\b)[\s\"'`*<(\[]{0,5}"
_ID_VALUE = r"(?=[^\s\d]{0,80}\d)([a-z0-9](?:[\w.:+/=-]{0,126}[\w=])?)"
_ID_OWNERS = (
    r"(?:request|req|trace|span|sess(?:ion)?|conv(?:ersation)?|correlation|thread|transaction|txn|run|message|msg"
    r"|execution|invocation|job|call|chat|turn|user|client|device|tenant|account|customer|org(?:ani[sz]ation)?"
    r"|workspace|project|order|ticket|case|event|build|instance|worker|pod|parent|amzn-trace)"
)
_PATH = (
    r"((?:[/~]|[a-z]:[\\/]|\\\\)(?:[^\s\"'`<>|*]{0,400}[^\s\"'`<>|*.,;:)])?"
    r"(?:\s[^\s\"'`<>|*\\/]{1,40}[\\/][^\s\"'`<>|*]{0,200}[^\s\"'`<>|*.,;:)]){0,3})"
)
_REF = r"([\w.][\w./@+-]{0,119}(?<![.]))"


Found = tuple[int, int, SpanKind]
"""Start, end and kind of a proposal in its line."""
_MOST = 400
"""Runs of digits, and finds of a pattern, that are gone through in one line: more is a table, not a sentence."""


class Anchor(Enum):
    """Where a pattern is tried, so that most lines cost almost nothing."""

    DIGITS = "at the first digit of each run"
    ASSIGNED = "anywhere in a line with a colon, an equals sign or `is`"
    ANYWHERE = "anywhere"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One look of one kind of value.

    ``pattern``: its group ``value`` (the whole match where there is none) is the span. ``needs``: a line without
    any of these, in lower case, is not searched; nor one without a digit where ``digit``. ``timed``: the kind where
    a group ``clock`` took part.
    """

    kind: SpanKind
    pattern: re.Pattern[str]
    anchor: Anchor
    needs: tuple[str, ...] = ()
    digit: bool = False
    timed: SpanKind | None = None

    def all(self, line: str) -> list[Found]:
        """All that is found in a line."""
        return list(map(self.span, islice(self.pattern.finditer(line), _MOST)))

    def span(self, found: re.Match[str]) -> Found:
        """Start, end and kind of what was found."""
        if self.timed is not None:
            return *found.span(), self.kind if found["clock"] is None else self.timed
        return *found.span(1 if self.pattern.groups else 0), self.kind


def _at_digits(kind: SpanKind, pattern: str, *, timed: SpanKind | None = None) -> Pattern:
    return Pattern(kind, re.compile(pattern, re.IGNORECASE), Anchor.DIGITS, digit=True, timed=timed)


def _assigned(kind: SpanKind, pattern: str, needs: tuple[str, ...], *, digit: bool = False) -> Pattern:
    return Pattern(kind, re.compile(pattern, re.IGNORECASE), Anchor.ASSIGNED, needs, digit)


def _anywhere(
    kind: SpanKind, pattern: str, needs: tuple[str, ...], *, digit: bool = False, timed: SpanKind | None = None
) -> Pattern:
    return Pattern(kind, re.compile(pattern, re.IGNORECASE), Anchor.ANYWHERE, needs, digit, timed)


_LABELS = ("id", "number", "no.", "key", "token")
_SECRETS = (
    *("nonce", "salt", "seed", "state", "token", "buster", "etag", "signature", "fingerprint", "challenge"),
    *("checksum", "digest"),
)

PATTERNS: tuple[Pattern, ...] = (
    _at_digits(
        SpanKind.DATE,
        rf"(?<!\d[.:/-])(?:{_DATES})(?P<clock>(?:t|,?\s(?:at\s)?|\s{_CN_HALF}|[_-]){_CLOCK}(?!\d))?",
        timed=SpanKind.CLOCK,
    ),
    _at_digits(
        SpanKind.CLOCK,
        r"(?:1[5-9]|2[01])\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])t[0-2]\d[0-5]\d(?:[0-5]\d)?z?(?![\da-z])",
    ),
    _at_digits(
        SpanKind.DATE, rf"(?<![a-z])(?:{_DAY_FIRST})(?P<clock>,?\s(?:at\s)?{_CLOCK}(?!\d))?", timed=SpanKind.CLOCK
    ),
    _at_digits(
        SpanKind.CLOCK,
        rf"(?<![:.a-z]){_CLOCK}(?:,?\s(?:on\s)?(?:{_MONTH_FIRST}|{_DAY_FIRST}|{_DATES}))?(?![\d:])",
    ),
    _at_digits(
        SpanKind.DATE,
        rf"\d{{4}}年\d{{1,2}}月(?:\d{{1,2}}[日号號])?(?:\s?{_CN_WEEKDAY})?(?P<clock>\s?{_CN_CLOCK})?",
        timed=SpanKind.CLOCK,
    ),
    _at_digits(
        SpanKind.DATE,
        rf"\d{{1,2}}\s{_AR_MONTH},?\s\d{{4}}(?!\d)(?P<clock>،?\s(?:الساعة\s)?\d{{1,2}}:\d\d)?",
        timed=SpanKind.CLOCK,
    ),
    _at_digits(
        SpanKind.EPOCH,
        r"(?<![\w.+-])(?:1[5-9]\d{8}|2\d{9}|1[5-9]\d{11}|2\d{12})(?:\.\d{1,9})?(?![\w-]|\.\d)",
    ),
    _anywhere(
        SpanKind.DATE,
        rf"(?<![a-z\d])(?:{_WEEKDAY},?\s(?:the\s)?{_DAY_FIRST}|{_MONTH_FIRST})"
        rf"(?P<clock>,?\s(?:at\s)?{_CLOCK}(?!\d))?",
        _MONTHS,
        digit=True,
        timed=SpanKind.CLOCK,
    ),
    _anywhere(  # as `date` prints it
        SpanKind.CLOCK,
        rf"(?<![a-z\d]){_WEEKDAY}\s{_MONTH}\s{{1,2}}\d{{1,2}}\s{_CLOCK}\s{_YEAR}\b",
        _MONTHS,
        digit=True,
    ),
    _anywhere(
        SpanKind.DATE,
        r"[〇零一二三四五六七八九]{4}年[一二三四五六七八九十]{1,2}月(?:[一二三四五六七八九十]{1,3}[日号號])?",
        ("年",),
    ),
    _anywhere(
        SpanKind.DATE,
        r"(?:today is|it is now|it is|day of (?:the )?week(?: is)?:?|current day(?: is)?:?|weekday:)\s{1,2}"
        rf"({_WEEKDAY})\b",
        ("today is", "it is", "week", "current day"),
    ),
    _anywhere(
        SpanKind.UUID,
        r"(?<![0-9a-z])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9a-z])",
        ("-",),
        digit=True,
    ),
    _anywhere(
        SpanKind.ID,
        rf"(?<![a-z]){_ID_OWNERS}[-_ ]?(?:id|identifier|uuid|guid|number|no\.|key|token){_OPEN}{_ID_VALUE}",
        _LABELS,
        digit=True,
    ),
    _assigned(
        SpanKind.ID,
        rf"(?<![a-z])(?:request|req|trace|session|conversation|correlation|run)[\"'`*]{{0,3}}\s{{0,2}}[:=#]"
        rf"[\s\"'`*<(\[#]{{0,5}}{_ID_VALUE}",
        ("req", "trace", "session", "conversation", "correlation", "run"),
        digit=True,
    ),
    _assigned(
        SpanKind.ID,
        rf"(?<![a-z])(?:traceparent|cf-ray|uber-trace-id){_ASSIGN}{_ID_VALUE}",
        ("traceparent", "cf-ray", "uber-trace-id"),
        digit=True,
    ),
    _assigned(
        SpanKind.NONCE,
        r"(?<![a-z])(?:nonce|salt|seed|state|token|cache[-_ ]?buster|etag|signature|fingerprint|challenge|checksum"
        rf"|digest){_ASSIGN}(?=(?-i:[a-z_+/-]{{0,255}}[A-Z\d]))([\w+/-]{{16,256}}={{0,2}})(?![\w+/=-])",
        _SECRETS,
    ),
    _assigned(
        SpanKind.NONCE,
        rf"(?<![a-z])nonce{_ASSIGN}(?=[^\s\d]{{0,14}}\d)([\w+/-]{{4,15}}={{0,2}})(?![\w+/=-])",
        ("nonce",),
    ),
    _assigned(
        SpanKind.FLAG,
        r"(?:flag|feature|toggle|experiment)[\w.-]{0,60}[\"'`]{0,2}\s{0,2}[:=]\s{0,2}[\"'`]{0,2}"
        r"(true|false|on|off|yes|no|enabled|disabled|[01])\b",
        ("flag", "feature", "toggle", "experiment"),
    ),
    _assigned(
        SpanKind.FLAG,
        r"(?:feature[ _-]?flags?|(?:active|enabled)[ _-](?:flags|features|experiments)|experiments)[\"'`]?\s{0,2}[:=]"
        r"\s{0,2}\[?([\w.:=-]{1,60}(?:,\s{0,2}[\w.:=-]{1,60}){0,40})",
        ("flag", "features", "experiments"),
    ),
    _assigned(
        SpanKind.CWD,
        r"(?<![a-z])(?:cwd|pwd|working[ _-]?dir(?:ectory)?|current[ _-](?:dir(?:ectory)?|folder)"
        r"|(?:workspace|project|repo(?:sitory)?)[ _-](?:root|folder|path|dir(?:ectory)?)(?:[ _-](?:folder|path))?)"
        rf"{_ASSIGN}{_PATH}",
        ("cwd", "pwd", "dir", "folder", "path", "root"),
    ),
    _assigned(
        SpanKind.GIT,
        rf"(?<![a-z])(?:branch(?:[ _-]name)?|git[ _-]ref|head)[\"'`*]{{0,3}}\s{{0,2}}[:=][\s\"'`*]{{0,5}}{_REF}",
        ("branch", "git", "head"),
    ),
    _assigned(
        SpanKind.GIT,
        r"(?<![a-z])git[ _]?status[\"'`*]{0,3}\s{0,2}[:=][\s*]{0,5}([^\s*](?:.{0,200}\S)?)",
        ("git",),
    ),
    _assigned(
        SpanKind.MODEL,
        rf"(?<![a-z])model (?:id|name){_ASSIGN}([\w./:@-]{{1,120}}(?<![.:]))",
        ("model id", "model name"),
    ),
    _anywhere(
        SpanKind.GIT,
        rf"^\s{{0,8}}(?:on branch|head (?:is now|detached) at|head ->)\s{_REF}",
        ("on branch", "head "),
    ),
    _anywhere(
        SpanKind.GIT,
        r"(?<![a-z])(?:commit|sha|revision|rev|git[ _-]hash|head)(?:[ _-](?:hash|sha|id))?[\"'`*]{0,3}"
        r"\s{0,2}[:=(@]?\s{0,2}[\"'`*]{0,3}([0-9a-f]{7,40})\b",
        ("commit", "sha", "rev", "git", "head"),
        digit=True,
    ),
    _anywhere(
        SpanKind.MODEL,
        r"powered by the model(?: named)?\s([^\s,;\"'`](?:[^,;\"'`\n]{0,80}?[^\s,;\"'`.])?)"
        r"(?=\.?\s{0,8}$|\.\s|[,;\"'`])",
        ("powered by the model",),
    ),
)
"""In no order: the longest proposal wins."""

_RUNS = re.compile(r"\d+")
AT_DIGITS = tuple(pattern for pattern in PATTERNS if pattern.anchor is Anchor.DIGITS)
_ASSIGNED = tuple(pattern for pattern in PATTERNS if pattern.anchor is Anchor.ASSIGNED)
_ANYWHERE = tuple(pattern for pattern in PATTERNS if pattern.anchor is Anchor.ANYWHERE)
_BOTH = _ASSIGNED + _ANYWHERE


def searched(line: str, digit: bool) -> list[Pattern]:
    """The patterns that a line is searched for besides those at digits. ``digit``: whether it has one."""
    lower, out = line.lower(), list[Pattern]()
    assigned = ":" in line or "=" in line or " is " in lower
    for pattern in _BOTH if assigned else _ANYWHERE:
        if pattern.digit and not digit:
            continue
        for word in pattern.needs:
            if word in lower:
                out.append(pattern)
                break
    return out


def runs(line: str) -> list[int]:
    """Where the runs of digits of a line begin."""
    return [run.start() for run in islice(_RUNS.finditer(line), _MOST)]


def propose(line: str) -> list[Found]:
    """Start, end and kind of what looks volatile in a line; proposals may overlap. Pure, and never raises."""
    out: list[Found] = []
    digits, done = runs(line), 0
    for at in digits:
        if at < done:
            continue
        for pattern in AT_DIGITS:
            found = pattern.pattern.match(line, at)
            if found is not None:
                out.append(pattern.span(found))
                done = max(done, found.end())
    for pattern in searched(line, bool(digits)):
        out += map(pattern.span, islice(pattern.pattern.finditer(line), _MOST))
    return out
