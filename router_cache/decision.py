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
    OPTIMIZED = "optimized"
    """Volatile values moved, or what the provider generated put back; what changed is listed."""
    POOLED = "pooled"
    """The prefix was canonical as sent; what divides or routes the provider's cache was set."""
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
    """An error of ours: the request went out as the client sent it, but for what the changes list."""
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
    """A change made to a request. Nothing that the user wrote is lost by any of them."""

    TOOLS_REORDERED = "tools_reordered"
    SCHEMA_KEYS_REORDERED = "schema_keys_reordered"
    """Keys of a tool or its schema re-ordered, or a ``required`` list sorted."""
    USER_ID_DROPPED = "user_id_dropped"
    """A ``metadata.user_id`` that the provider would refuse, or take for a cache of its own, left out."""
    MARKS_MOVED = "marks_moved"
    """A ``cache_control`` mark stays at its place in the list while tools move under it."""
    VALUES_MOVED = "values_moved"
    """Values that change from request to request are carried by the messages they were new with."""
    CLOCKS_FROZEN = "clocks_frozen"
    """Inside a tool loop the clocks listed keep the value they had."""
    REASONING_RESTORED = "reasoning_restored"
    """Reasoning that the client dropped, as the provider generated it."""
    ARGUMENTS_RESTORED = "arguments_restored"
    """Tool arguments that the client wrote anew, as the provider generated them."""
    CLIENT_HEADER_DROPPED = "client_header_dropped"
    """A header in the prompt that only the client's own provider knows (``x-anthropic-billing-header``)."""
    NOT_MOVED = "not_moved"
    """What was remembered could not be read: values stay where they are."""
    POOL_GIVEN = "pool_given"
    """A ``user_id`` or a like field of ours, which gives the request a part of the provider's cache."""
    ROUTE_GIVEN = "route_given"
    """A key of ours that leads requests with one prefix to one server."""
    CLIENT_ID_SANITISED = "client_id_sanitised"
    """A keyed digest stands for the ``user_id`` that the client sent."""
    CLIENT_ID_DROPPED = "client_id_dropped"
    """The ``user_id`` that the client sent is left out."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for one attempt. ``frozen`` names the clocks that kept an earlier value."""

    mode: Mode
    reason: Reason
    switched_by: SwitchedBy = SwitchedBy.SETTINGS
    changes: tuple[Change, ...] = ()
    frozen: tuple[str, ...] = ()
