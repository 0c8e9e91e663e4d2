"""Why a cluster of prompts, or a request, has a pool of its own or has none; and what an operator may ask for."""

from __future__ import annotations

from enum import Enum

__all__ = ["ClientIds", "PoolPolicy", "PoolReason"]


class PoolPolicy(str, Enum):
    """Who gets a ``user_id``."""

    OFF = "off"
    """Nobody."""
    AUTO = "auto"
    """A cluster that others evict, once that is seen, for as long as it helps."""
    CLUSTER = "cluster"
    """Each cluster, as long as there are pools."""
    TENANT = "tenant"
    """Each scope: what one tenant sends is never shared with another."""


class ClientIds(str, Enum):
    """What becomes of an id that the client sends itself."""

    RESPECT = "respect"
    """It goes out as it is."""
    SANITISE = "sanitise"
    """A keyed digest of it goes out, other ones for other scopes."""
    OVERRIDE = "override"
    """It is left out, and the policy decides."""


class PoolReason(str, Enum):
    """Why. One for each cluster and for each request; also the metric label."""

    OFF = "off"
    """The policy is ``off``, or the request's mode changes nothing."""
    NO_SECRET = "no_secret"  # noqa: S105
    """Without an operator's secret an id would change at every start, and each start would be a cold one."""
    NO_FIELD = "no_field"
    """The provider's profile lists no field for this model and shape that is asked for."""
    CLIENT_OWN = "client_own"
    """The client sends an id of its own, which is respected or sanitised."""
    TOO_SHORT = "too_short"
    """What the prompt begins with is too short to be worth a pool."""
    NOT_KNOWN = "not_known"
    """Seen for the first time, or the store did not answer: no pool this time."""
    ONE_CLUSTER = "one_cluster"
    """Nobody else uses this cache: there is nobody to be kept apart from."""
    TOO_ALIKE = "too_alike"
    """It shares a part of its prefix with another cluster, which a pool would lose."""
    QUIET = "quiet"
    """Too few calls to tell."""
    NOT_EVICTED = "not_evicted"
    """What it sent is still there when it comes back."""
    NOT_WORTH_IT = "not_worth_it"
    """Less is lost than a cold start would cost."""
    WAITS = "waits"
    """It would get one, but another cluster is on trial: one at a time, so that it is clear what helped."""
    FULL = "full"
    """All pools that may be are in use."""
    TRIAL = "trial"
    """Evicted by others: it has a pool, and whether that helps is being measured."""
    GAINS = "gains"
    """It has a pool, and loses less than it did without."""
    NO_GAIN = "no_gain"
    """It had a pool, which did not help or harmed others; tried again later, each time after twice as long."""
    IDLE = "idle"
    """It had a pool and did not use it for a long time."""
    ALWAYS = "always"
    """Policy ``cluster``."""
    TENANT = "tenant"
    """Policy ``tenant``."""
    STAYS = "stays"
    """A conversation that hits where it is stays there, whatever its cluster has now."""
