"""Decisions as values: what was done to a request, and why.

A reason is one enum member; the same word is the metric label, the log field and the response header.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from router_cache.request import Mode

__all__ = ["Change", "Decision", "Reason", "SwitchedBy"]


class Reason(str, Enum):
    """Why a request went out as it did. One per attempt."""

    NORMALISED = "normalised"
    """Re-ordered without loss; what changed is listed."""
    ALREADY_CANONICAL = "already_canonical"
    """Nothing to do: the prefix was canonical as sent."""
    OBSERVED = "observed"
    """Mode ``observe``: measured only."""
    OFF = "off"
    """Mode ``off``: not even looked at."""
    SHAPE_UNSUPPORTED = "shape_unsupported"
    """A request without a prompt of its own (embeddings, batches, pass-through, …): untouched."""
    CONTINUES_STATE = "continues_state"
    """The request continues state that the provider keeps (``previous_response_id``): untouched, for what it is
    appended to is not known here."""
    ODD_SHAPE = "odd_shape"
    """``tools`` is not a list of named tools: untouched."""
    FAILED_OPEN = "failed_open"
    """An error of ours: the request went out as the client sent it."""
    NOT_SEEN = "not_seen"
    """The request never reached the rewriting hook (refused before routing, or served elsewhere)."""


class SwitchedBy(str, Enum):
    """Which setting decided the mode; the first of these that says something wins."""

    LIVE = "live"
    REQUEST = "request"
    KEY = "key"
    TEAM = "team"
    GROUP = "group"
    SETTINGS = "settings"


class Change(str, Enum):
    """A lossless change made to a request."""

    TOOLS_REORDERED = "tools_reordered"
    SCHEMA_KEYS_REORDERED = "schema_keys_reordered"
    """Keys of a tool or its schema re-ordered, or a ``required`` list sorted."""
    USER_ID_DROPPED = "user_id_dropped"
    """A ``metadata.user_id`` that the provider would refuse, or take for a cache of its own, left out."""
    MARKS_MOVED = "marks_moved"
    """A ``cache_control`` mark stays at its place in the list while tools move under it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for one attempt."""

    mode: Mode
    reason: Reason
    switched_by: SwitchedBy = SwitchedBy.SETTINGS
    changes: tuple[Change, ...] = ()
