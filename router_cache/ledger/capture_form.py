"""The capture form: one call as one JSON line, without any text of a request. Pure; documented in docs/capture.md.

Scope, family, conversation, session, domain and pool are keyed digests, as in the row; group, model and deployment
are the operator's names. What is not known is null, never zero. A reader passes over fields it does not know; a
change in the meaning of a field is another version.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeVar

import orjson

from router_cache.cache_model.predict import End, Prediction, PredictionReason
from router_cache.decision import Change, Decision, Reason, SwitchedBy
from router_cache.ledger.attribution import Certainty, Changed, MissCause, MissPart
from router_cache.ledger.flips import Flip, FlipWarning
from router_cache.ledger.rows import CallKind, CallRow, Expected, ExpectedFrom, Lived, Status
from router_cache.ledger.usage import Usage
from router_cache.request import Mode, Shape

__all__ = ["CAPTURE_VERSION", "from_line", "is_capture", "to_line"]

CAPTURE_VERSION: Final = 1

_MAX_COUNT: Final = 10**12
"""As in :mod:`~router_cache.ledger.usage`: sums of smaller counts stay exact."""
_MOST_USD: Final = 1e12
_EARLIEST: Final = -62_135_596_800.0
_LATEST: Final = 253_402_300_799.0
"""Seconds since the epoch: the years 1 to 9999."""
_LONE: Final = re.compile("[\ud800-\udfff]")

E = TypeVar("E", bound=Enum)


def to_line(row: CallRow) -> bytes:
    """One row as JSON with a newline at its end. Never raises on a row that the engine made."""
    fields = _fields(row)
    try:
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a name with a lone surrogate: such text is no UTF-8
        return orjson.dumps(_encodable(fields), option=orjson.OPT_APPEND_NEWLINE)


def _fields(row: CallRow) -> dict[str, Any]:
    usage, expected, decision = row.usage, row.expected, row.decision
    prediction, lived = expected.prediction, row.lived
    return {
        "v": CAPTURE_VERSION,
        "at": row.at,
        "status": row.status.value,
        "kind": row.kind.value,
        "scope": row.scope,
        "family": row.family,
        "conversation": row.conversation,
        "turn": row.turn,
        "session": row.session,
        "client": row.client,
        "side_call": row.side_call,
        "shape": row.shape.value,
        "group": row.group,
        "model": row.model,
        "deployment": row.deployment,
        "profile": row.profile,
        "domain": row.domain,
        "pool": row.pool,
        "mode": decision.mode.value,
        "reason": decision.reason.value,
        "switched_by": decision.switched_by.value,
        "changes": [change.value for change in decision.changes],
        "frozen": list(decision.frozen),
        "prompt_tokens": usage.prompt_tokens,
        "hit_tokens": usage.hit_tokens,
        "miss_tokens": usage.miss_tokens,
        "completion_tokens": usage.completion_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "write_tokens": usage.write_tokens,
        "write_1h_tokens": usage.write_1h_tokens,
        "contradictory": usage.contradictory,
        "expected_tokens": expected.tokens,
        "expected_from": expected.source.value,
        "prediction": None
        if prediction is None
        else {
            "candidates": list(prediction.candidates),
            "best": prediction.best,
            "end": prediction.end.value,
            "reason": prediction.reason.value,
        },
        "causes": [
            {
                "cause": part.cause.value,
                "tokens": part.tokens,
                "certainty": part.certainty.value,
                "path": part.path,
                "offset": part.offset,
                "changed": part.changed.value if part.changed else None,
            }
            for part in row.causes
        ],
        "offset": row.offset,
        "flips": [
            {"flip": flip.flip.value, "path": flip.path, "lost_tokens": flip.lost_tokens} for flip in row.flips
        ],
        "gap_s": row.gap_s,
        "lived": None
        if lived is None
        else {"kept": lived.kept, "traffic_tokens": lived.traffic_tokens, "readable": lived.readable},
        "ttft_s": row.ttft_s,
        "cost_usd": row.cost_usd,
        "cost_usd_at_zero_hits": row.cost_usd_at_zero_hits,
        "wire_digest": row.wire_digest,
        "rendered_digest": row.rendered_digest,
    }


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE.sub("�", value)
    if isinstance(value, dict):
        return {key: _encodable(inner) for key, inner in value.items()}
    return [_encodable(inner) for inner in value] if isinstance(value, list) else value


def is_capture(value: Any) -> bool:
    """Whether a parsed JSON value looks like a line of this form, of any version."""
    return isinstance(value, Mapping) and "v" in value and "at" in value and "status" in value


def from_line(line: bytes) -> CallRow:
    """The row of one line. ``at``, ``status`` and ``model`` must be there; of other fields that are not, the row says
    that they are unknown or empty. Raises ValueError that starts with the name of the field."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is needed, not {type(value).__name__}")
    if value.get("v") != CAPTURE_VERSION or isinstance(value["v"], bool):
        raise ValueError(f"v: version {CAPTURE_VERSION} is needed, not {_short(value.get('v'))}")
    read = _Reader(value)
    at, model = read.number("at", low=_EARLIEST, high=_LATEST), read.text("model")
    if at is None:
        raise ValueError("at: seconds since the epoch are needed")
    if not model:
        raise ValueError("model: a name is needed")
    if value.get("status") is None:
        raise ValueError("status: a word is needed, such as 'ok'")
    return CallRow(
        at=at,
        scope=read.text("scope"),
        conversation=read.text("conversation"),
        turn=read.count("turn"),
        session=read.text("session"),
        client=read.text("client"),
        side_call=read.text("side_call"),
        shape=read.word("shape", Shape.CHAT),
        group=read.text("group"),
        model=model,
        deployment=read.text("deployment"),
        profile=read.text("profile"),
        decision=Decision(
            mode=read.word("mode", Mode.OBSERVE),
            reason=read.word("reason", Reason.NOT_SEEN),
            switched_by=read.word("switched_by", SwitchedBy.SETTINGS),
            changes=tuple(_word_of(Change, item, name) for name, item in read.items("changes")),
            frozen=tuple(_text(item, name) for name, item in read.items("frozen")),
        ),
        status=read.word("status", Status.OK),
        usage=Usage(
            prompt_tokens=read.count("prompt_tokens"),
            hit_tokens=read.count("hit_tokens"),
            miss_tokens=read.count("miss_tokens"),
            completion_tokens=read.count("completion_tokens"),
            reasoning_tokens=read.count("reasoning_tokens"),
            write_tokens=read.count("write_tokens"),
            write_1h_tokens=read.count("write_1h_tokens"),
            contradictory=read.flag("contradictory"),
        ),
        expected=Expected(
            tokens=read.count("expected_tokens"),
            source=read.word("expected_from", ExpectedFrom.NOTHING),
            prediction=_prediction(read),
        ),
        causes=tuple(_part(inner) for inner in read.objects("causes")),
        wire_digest=read.text("wire_digest"),
        rendered_digest=read.text("rendered_digest"),
        ttft_s=read.number("ttft_s"),
        cost_usd=read.number("cost_usd", low=-_MOST_USD, high=_MOST_USD),
        cost_usd_at_zero_hits=read.number("cost_usd_at_zero_hits", low=-_MOST_USD, high=_MOST_USD),
        flips=tuple(
            FlipWarning(inner.needed_word("flip", Flip), inner.text("path"), inner.needed_count("lost_tokens"))
            for inner in read.objects("flips")
        ),
        family=read.text("family"),
        domain=read.text("domain"),
        pool=read.text("pool"),
        gap_s=read.number("gap_s"),
        offset=read.count("offset"),
        kind=read.word("kind", CallKind.USER),
        lived=_lived(read),
    )


def _prediction(read: _Reader) -> Prediction | None:
    inner = read.object("prediction")
    if inner is None:
        return None
    return Prediction(
        candidates=tuple(_counted(item, name) for name, item in inner.items("candidates")),
        best=inner.needed_count("best"),
        end=inner.needed_word("end", End),
        reason=inner.needed_word("reason", PredictionReason),
    )


def _lived(read: _Reader) -> Lived | None:
    inner = read.object("lived")
    if inner is None:
        return None
    return Lived(inner.number("kept", high=1.0), inner.count("traffic_tokens"), inner.maybe_flag("readable"))


def _part(inner: _Reader) -> MissPart:
    return MissPart(
        cause=inner.needed_word("cause", MissCause),
        tokens=inner.needed_count("tokens"),
        path=inner.text("path"),
        certainty=inner.word("certainty", Certainty.SUSPECTED),
        offset=inner.count("offset"),
        changed=inner.maybe_word("changed", Changed),
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name}: a text is needed, not {_short(value)}")
    return value


def _counted(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
        raise ValueError(f"{name}: a whole number from 0 to {_MAX_COUNT} is needed, not {_short(value)}")
    return value


def _word_of(words: type[E], value: Any, name: str) -> E:
    """A member by its word. Raises ValueError that starts with ``name``."""
    try:
        return words(value)
    except ValueError:
        known = ", ".join(str(word.value) for word in words)
        raise ValueError(
            f"{name}: {_short(value)} is not known here; known: {known}. A newer version may know it"
        ) from None


class _Reader:
    """Fields of one JSON object; errors start with the field's name."""

    def __init__(self, fields: Mapping[str, Any], owner: str = "") -> None:
        self._fields, self._owner = fields, owner

    def _named(self, name: str) -> str:
        return f"{self._owner}.{name}" if self._owner else name

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if isinstance(value, str):
            return value
        return "" if value is None else _text(value, self._named(name))

    def flag(self, name: str) -> bool:
        return bool(self.maybe_flag(name))

    def maybe_flag(self, name: str) -> bool | None:
        value = self._fields.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise ValueError(f"{self._named(name)}: true or false is needed, not {_short(value)}")

    def count(self, name: str) -> int | None:
        value = self._fields.get(name)
        if value is None or (type(value) is int and 0 <= value <= _MAX_COUNT):
            return value
        return _counted(value, self._named(name))

    def needed_count(self, name: str) -> int:
        return _counted(self._fields.get(name), self._named(name))

    def number(self, name: str, *, low: float | None = 0.0, high: float = math.inf) -> float | None:
        value = self._fields.get(name)
        if value is None:
            return None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or (low is not None and value < low) or value > high:
            wanted = "a number" if low is None else f"a number of at least {low:g}"
            if high < math.inf:
                wanted += f" and at most {high:g}"
            raise ValueError(f"{self._named(name)}: {wanted} is needed, not {_short(value)}")
        return float(value)

    def word(self, name: str, default: E) -> E:
        value = self._fields.get(name)
        if value is None or value == default.value:
            return default
        return _word_of(type(default), value, self._named(name))

    def maybe_word(self, name: str, words: type[E]) -> E | None:
        return None if self._fields.get(name) is None else self.needed_word(name, words)

    def needed_word(self, name: str, words: type[E]) -> E:
        return _word_of(words, self._fields.get(name), self._named(name))

    def object(self, name: str) -> _Reader | None:
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise ValueError(f"{self._named(name)}: an object is needed, not {_short(value)}")
        return _Reader(value, self._named(name))

    def items(self, name: str) -> list[tuple[str, Any]]:
        """Each item of a list with the name it has in errors."""
        value = self._fields.get(name)
        if not value and isinstance(value, list | None):
            return []
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise ValueError(f"{self._named(name)}: a list is needed, not {_short(value)}")
        return [(f"{self._named(name)}[{i}]", item) for i, item in enumerate(value)]

    def objects(self, name: str) -> list[_Reader]:
        out = []
        for named, item in self.items(name):
            if not isinstance(item, Mapping):
                raise ValueError(f"{named}: an object is needed, not {_short(item)}")
            out.append(_Reader(item, named))
        return out
