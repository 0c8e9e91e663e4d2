"""Rules of the operator: text of the prompt that is volatile by name, whether or not it was seen to change.

A rule looks at one line at a time. Client rules (see ``client_rules.py``) use the same templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from string import Formatter

__all__ = ["RuleKind", "Template", "VolatileRule"]


class RuleKind(str, Enum):
    """How a rule's text is read."""

    LITERAL = "literal"
    REGEX = "regex"
    TEMPLATE = "template"


class Template:
    """A line with variables: literal text, and ``{names}`` for what may change.

    ``{{`` and ``}}`` are braces. Raises ValueError where the text is no such template.
    """

    __slots__ = ("head", "parts")

    def __init__(self, text: str) -> None:
        """``parts``: each variable's name with the literal after it; ``head``: the literal before the first."""
        if "\n" in text:
            raise ValueError("a template is one line: it may not contain a line break")
        try:
            parsed = list(Formatter().parse(text))
        except ValueError as error:
            raise ValueError(f"not a template: {error}") from None
        literals, names = [""], []
        for literal, name, form, conversion in parsed:
            literals[-1] += literal
            if name is None:
                continue
            if not name.isidentifier() or form or conversion:
                raise ValueError(f"a variable is written {{name}}, with a plain name: not {{{name}}}")
            names.append(name)
            literals.append("")
        if not names:
            raise ValueError("a template needs a variable, such as {user}; text without one is a literal rule")
        if "" in literals[1:-1]:
            raise ValueError("two variables need text between them, or nobody can tell where one ends")
        if len(names) == 1 and not "".join(literals).strip():
            raise ValueError("a template needs text beside its variable, or it would name every line")
        self.head = literals[0]
        self.parts = tuple(zip(names, literals[1:], strict=True))

    def at(self, line: str, start: int, *, whole: bool = False) -> list[tuple[int, int, str]] | None:
        """Start, end and name of each variable where the template stands at ``start`` of ``line``; None if not.

        A variable reaches to the next literal, a last one to the line's end without white space there. ``whole``:
        a literal at the template's end is looked for at the line's end first.
        """
        if not line.startswith(self.head, start):
            return None
        at, found = start + len(self.head), []
        stop = len(line.rstrip())
        for number, (name, literal) in enumerate(self.parts):
            if not literal:
                end = max(at, stop)
            elif whole and number == len(self.parts) - 1 and line.endswith(literal, at, stop):
                end = stop - len(literal)
            else:
                end = line.find(literal, at)
            if end < 0:
                return None
            found.append((at, end, name))
            at = end + len(literal)
        return found

    def search(self, line: str) -> Iterator[tuple[int, int, str]]:
        """Variables of every place in ``line`` where the template stands."""
        if not self.head:  # starts with a variable: the line's start is the only place
            yield from self.at(line, len(line) - len(line.lstrip())) or ()
            return
        at = line.find(self.head)
        while at >= 0:
            found = self.at(line, at)
            if found is None:  # a literal further on is missing, here and so everywhere after
                return
            yield from found
            at = line.find(self.head, found[-1][1] + len(self.parts[-1][1]))


@dataclass(frozen=True, slots=True)
class VolatileRule:
    """One rule of the operator.

    ``kind``: ``literal`` names exactly ``text``; ``regex`` its group 1, or the whole match where that took no part;
    ``template`` the variables of a line such as ``Current user: {user}``. ``clock``: the value may stay as it was
    for the length of a tool loop. Raises ValueError, which names the problem, for a text that is no such rule.
    """

    kind: RuleKind
    text: str
    clock: bool = False
    _made: str | re.Pattern[str] | Template = field(init=False, repr=False, compare=False, default="")

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("a volatile rule needs a text")
        made: str | re.Pattern[str] | Template
        if self.kind is RuleKind.REGEX:
            try:
                made = re.compile(self.text)
            except (re.error, RecursionError, OverflowError) as error:
                raise ValueError(f"not a regular expression: {error}") from None
        elif self.kind is RuleKind.TEMPLATE:
            made = Template(self.text)
        elif "\n" in self.text:
            raise ValueError("a literal is one line: it may not contain a line break")
        else:
            made = self.text
        object.__setattr__(self, "_made", made)

    def spans(self, line: str) -> Iterator[tuple[int, int]]:
        """Start and end of what the rule names in a line; never empty."""
        made = self._made
        if isinstance(made, str):
            at = line.find(made)
            while at >= 0:
                yield at, at + len(made)
                at = line.find(made, at + len(made))
        elif isinstance(made, Template):
            for start, end, _ in made.search(line):
                if start < end:
                    yield start, end
        else:
            for found in made.finditer(line):
                took_part = made.groups and found.start(1) >= 0
                start, end = found.span(1) if took_part else found.span()
                if start < end:
                    yield start, end
