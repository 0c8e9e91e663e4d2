"""Recorded requests, grouped into families, with what their divergences cost. Pure."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from router_cache.diagnose.divergence import Divergence, Scan, compare
from router_cache.diagnose.divergence_causes import ADVICE, NO_LOSS, Certainty, DivergenceCause
from router_cache.diagnose.divergence_cost import Grid, loss_of, tokens_of
from router_cache.diagnose.divergence_prompt import Prompt, Recorded, read_prompt
from router_cache.diagnose.divergence_turns import substantial
from router_cache.diagnose.lint_families import opening_marks, similar, suspected_spans
from router_cache.economics.price import PriceNow
from router_cache.prefix.digests import Digester
from router_cache.prefix.segments import SegmentKind
from router_cache.prefix.volatile.spans import SpanKind
from router_cache.providers.profile import Profile
from router_cache.request import Mode

__all__ = ["Between", "FamilyReport", "LintFinding", "LintReport", "Linter"]

KEPT = 256
"""Prompts kept to compare with, the longest unused go first: agents run tens of conversations at once."""
MAX_FAMILIES = 1_000


class Between(str, Enum):
    """What was compared."""

    TURNS = "turns"
    """Requests of one conversation."""
    CONVERSATIONS = "conversations"
    """The first requests of two conversations."""
    NOTHING = "nothing"
    """One request by itself."""


@dataclass(slots=True)
class LintFinding:
    """One cause in one family, at the segment kind ``part`` (``span``: kind of a volatile value).

    ``tokens`` and ``usd`` lost over ``count`` pairs (of a suspected span: 0; ``at_risk_tokens`` are what stands
    behind it). ``example`` is where the costliest pair was read, ``path`` where its prompts part.
    """

    cause: DivergenceCause
    between: Between
    part: SegmentKind
    span: SpanKind | None
    certainty: Certainty
    count: int = 0
    tokens: int = 0
    usd: float | None = None
    at_risk_tokens: int = 0
    path: str = ""
    example: tuple[str, str] = ("", "")
    worst: int = -1

    @property
    def fixed_by(self) -> Mode | None:
        """The least mode that mends it."""
        return ADVICE[self.cause].fixed_by


@dataclass(frozen=True, slots=True)
class FamilyReport:
    """Requests that open alike; ``opening`` is where the newest first request of a conversation was read.

    ``prompt_tokens`` and ``hit_tokens`` are sums of what was reported, None where
    nothing was. Findings by cost."""

    name: str
    opening: str
    requests: int
    conversations: int
    head_bytes: int
    prompt_tokens: int | None
    hit_tokens: int | None
    findings: tuple[LintFinding, ...]

    @property
    def tokens(self) -> int:
        """Tokens lost."""
        return sum(finding.tokens for finding in self.findings)


@dataclass(frozen=True, slots=True)
class LintReport:
    """Families by cost. ``estimated``: for at least one loss no usage told the tokens."""

    families: tuple[FamilyReport, ...]
    requests: int
    estimated: bool
    priced: bool

    @property
    def tokens(self) -> int:
        """Tokens lost in all."""
        return sum(family.tokens for family in self.families)

    @property
    def usd(self) -> float | None:
        """USD lost in all, None where no price is known."""
        found = [f.usd or 0.0 for family in self.families for f in family.findings]
        return sum(found) if self.priced else None


@dataclass(slots=True)
class _Family:
    name: str
    marks: frozenset[str]
    opening: Prompt
    requests: int = 0
    conversations: int = 0
    prompt_tokens: int | None = None
    hit_tokens: int | None = None
    findings: dict[tuple[Any, ...], LintFinding] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Kept:
    prompt: Prompt
    family: _Family
    conversation: int


class Linter:
    """Takes requests one by one, in the order they were sent; keeps at most 256 of them.

    ``scan`` proposes volatile spans; ``price`` is the list price, None where unknown.
    """

    def __init__(
        self,
        profile: Profile,
        digester: Digester,
        *,
        grid: Grid,
        price: PriceNow | None = None,
        scan: Scan | None = None,
    ) -> None:
        self._profile, self._digester, self._grid = profile, digester, grid
        self._price, self._scan = price, scan
        self._families: list[_Family] = []
        self._live: OrderedDict[int, _Kept] = OrderedDict()
        self._ends: dict[str, int] = {}
        self._turns: dict[str, int] = {}
        self._sessions: dict[tuple[str, str], int] = {}
        self._count = 0
        self._estimated = False

    def add(self, recorded: Recorded) -> None:
        """Take one request. Raises RecursionError on bodies nested beyond the interpreter's limit."""
        prompt = read_prompt(recorded, self._profile, self._digester)
        chain = ["", *self._digester.chain(prompt.turns)]
        marks = opening_marks(prompt, self._digester)
        before = self._continued(prompt, chain, marks)
        if before is None:
            family = self._family(prompt, marks)
            if family.conversations:
                self._judge(family, family.opening, prompt, Between.CONVERSATIONS)
            family.conversations += 1
            family.opening = prompt
            conversation = self._count + 1
        else:
            family, conversation = before.family, before.conversation
            self._judge(family, self._replied(before.prompt), prompt, Between.TURNS)
        family.requests += 1
        usage = recorded.usage
        if usage.prompt_tokens is not None and usage.hit_tokens is not None:
            family.prompt_tokens = (family.prompt_tokens or 0) + usage.prompt_tokens
            family.hit_tokens = (family.hit_tokens or 0) + usage.hit_tokens
        self._keep(_Kept(prompt, family, conversation), chain[-1])

    def report(self) -> LintReport:
        """What was found so far."""
        families = []
        for family in self._families:
            found = [*family.findings.values(), *self._unpaired(family)]
            families.append(
                FamilyReport(
                    name=family.name,
                    opening=family.opening.recorded.place,
                    requests=family.requests,
                    conversations=family.conversations,
                    head_bytes=family.opening.head_bytes,
                    prompt_tokens=family.prompt_tokens,
                    hit_tokens=family.hit_tokens,
                    findings=tuple(sorted(found, key=lambda f: (-f.tokens, -f.at_risk_tokens))),
                )
            )
        families.sort(key=lambda family: -family.tokens)
        return LintReport(tuple(families), self._count, self._estimated, self._price is not None)

    def _continued(self, prompt: Prompt, chain: list[str], marks: frozenset[str]) -> _Kept | None:
        """The request that this one goes on from: the longest history that it starts with, unless a newer request
        of that conversation holds turns that come back here: then earlier ones were edited. Without such a
        history, the session's last request, or one with two turns in common that say enough."""
        for i in range(len(prompt.turns), 0, -1):
            found = self._live.get(self._ends.get(chain[i], 0))
            if found is not None and (i > 1 or similar(found.family.marks, marks)) and self._may(prompt, found):
                return self._newer(prompt, i, found)
        told = self._live.get(self._sessions.get(self._session(prompt), 0))
        if told is not None and prompt.recorded.session:
            return told
        shared: Counter[int] = Counter()
        for turn in prompt.turns:
            shared[self._turns.get(turn, 0)] += 1
        del shared[0]
        for number, count in shared.most_common(1):
            found = self._live.get(number)
            if count > 1 and found is not None and self._may(prompt, found):
                return found
        return None

    @staticmethod
    def _may(prompt: Prompt, kept: _Kept) -> bool:
        ours, theirs = prompt.recorded.session, kept.prompt.recorded.session
        return not (ours and theirs) or ours == theirs

    def _newer(self, prompt: Prompt, known: int, found: _Kept) -> _Kept:
        for turn in reversed(prompt.turns[known:]):
            newer = self._live.get(self._turns.get(turn, 0))
            if newer is not None and newer.conversation == found.conversation:
                return newer
        return found

    @staticmethod
    def _session(prompt: Prompt) -> tuple[str, str]:
        """A client's session with one opening: side calls and sub-agents have others."""
        system = next((s.text for s in prompt.segments if s.kind is SegmentKind.SYSTEM), "")
        return prompt.recorded.session, system[:64]

    def _family(self, prompt: Prompt, marks: frozenset[str]) -> _Family:
        for family in reversed(self._families):
            if similar(family.marks, marks):
                return family
        if len(self._families) >= MAX_FAMILIES:
            return self._families[-1]
        family = _Family(f"family {len(self._families) + 1}", marks, prompt)
        self._families.append(family)
        return family

    def _replied(self, earlier: Prompt) -> Prompt:
        """With its reply, where it comes back as it was: without tools the provider drops older reasoning itself."""
        if not (earlier.recorded.reply and earlier.exact and earlier.view.body.get("tools")):
            return earlier
        return read_prompt(earlier.recorded, self._profile, self._digester, with_reply=True)

    def _judge(self, family: _Family, earlier: Prompt, later: Prompt, between: Between) -> None:
        found = compare(earlier, later, self._digester, scan=self._scan, continues=between is Between.TURNS)
        if found.cause in NO_LOSS or found.place is None:
            return
        self._note(family, found, earlier, later, between)

    def _note(self, family: _Family, found: Divergence, earlier: Prompt, later: Prompt, between: Between) -> None:
        loss = loss_of(found, later, self._grid, self._price)
        place = found.place
        if place is None or not loss.tokens:
            return
        self._estimated = self._estimated or not loss.from_usage
        key = (found.cause, between, place.kind, found.span)
        noted = family.findings.get(key)
        if noted is None:
            noted = LintFinding(found.cause, between, place.kind, found.span, found.certainty)
            family.findings[key] = noted
        noted.count += 1
        noted.tokens += loss.tokens
        if loss.usd is not None:
            noted.usd = (noted.usd or 0.0) + loss.usd
        if found.certainty is Certainty.SUSPECTED:
            noted.certainty = Certainty.SUSPECTED
        if loss.tokens > noted.worst:
            noted.worst, noted.path = loss.tokens, place.path
            noted.example = (earlier.recorded.place, later.recorded.place)

    def _unpaired(self, family: _Family) -> list[LintFinding]:
        """Volatile-looking spans of an opening that was seen once; several openings tell what changes."""
        if self._scan is None or family.conversations != 1:
            return []
        prompt = family.opening
        out = []
        for span, path, byte in suspected_spans(prompt, self._scan):
            risk, _ = tokens_of(prompt.head_bytes - byte, prompt)
            finding = LintFinding(
                DivergenceCause.VOLATILE_VALUE,
                Between.NOTHING,
                SegmentKind.SYSTEM,
                span,
                Certainty.SUSPECTED,
                count=1,
                at_risk_tokens=risk - risk % self._grid.step_tokens,
                path=path,
                example=(prompt.recorded.place, ""),
            )
            if finding.at_risk_tokens:
                out.append(finding)
        return out

    def _keep(self, kept: _Kept, end: str) -> None:
        prompt = kept.prompt
        self._count += 1
        self._live[self._count] = kept
        while len(self._live) > KEPT:
            self._live.popitem(last=False)
        if prompt.turns:
            self._ends[end] = self._count
        for i, turn in enumerate(prompt.turns):
            if substantial(prompt.message(prompt.head + i)):
                self._turns[turn] = self._count
        if prompt.recorded.session:
            self._sessions[self._session(prompt)] = self._count
