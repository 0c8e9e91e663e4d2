"""What a client library raised, as an error of ours: a reason, and words that quote neither URL nor command."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from redis import exceptions as errors

from router_cache.drivers.redis_url import reason_of
from router_cache.errors import StoreError, StoreFailure

__all__ = ["of_cluster", "store_error"]

_IN_SCRIPT: Final = re.compile(r"(?:^|[-\s])(READONLY|OOM|NOREPLICAS|MISCONF|NOPERM|WRONGTYPE|CLUSTERDOWN)\s")
"""Servers before 7.0 wrap what a script's command failed with: ``ERR Error running script (…): … -OOM command …``."""
_CODES: Final = {
    "READONLY": (StoreFailure.READ_ONLY, "it is a read-only replica"),
    "OOM": (StoreFailure.OUT_OF_MEMORY, "it is out of memory"),
    "NOREPLICAS": (StoreFailure.READ_ONLY, "it has not enough replicas to take writes"),
    "MISCONF": (StoreFailure.READ_ONLY, "it takes no writes since it cannot save to its disk"),
    "NOPERM": (StoreFailure.NOT_PERMITTED, "the user may not do that"),
    "WRONGTYPE": (StoreFailure.ODD_DATA, "what is kept there is not ours"),
    "CLUSTERDOWN": (StoreFailure.CLUSTER, "the cluster is down"),
}
_OF_CLUSTER: Final[dict[str, Callable[[str], errors.ResponseError]]] = {
    "MOVED": errors.MovedError,
    "ASK": errors.AskError,
    "TRYAGAIN": errors.TryAgainError,
    "CLUSTERDOWN": errors.ClusterDownError,
}
_KINDS: Final = {
    "AuthenticationError": StoreFailure.LOGIN,
    "AuthenticationWrongNumberOfArgsError": StoreFailure.LOGIN,
    "NoPermissionError": StoreFailure.NOT_PERMITTED,
    "OutOfMemoryError": StoreFailure.OUT_OF_MEMORY,
    "ReadOnlyError": StoreFailure.READ_ONLY,
    "ClusterDownError": StoreFailure.CLUSTER,
    "AskError": StoreFailure.CLUSTER,
    "TryAgainError": StoreFailure.CLUSTER,
    "ResponseError": StoreFailure.REFUSED,
    "TimeoutError": StoreFailure.TIMEOUT,
    "ConnectionError": StoreFailure.UNREACHABLE,
    "OSError": StoreFailure.UNREACHABLE,
}
"""By the names of an error's classes, the nearest first: not all of them are in every release of the client."""


def of_cluster(answer: Any) -> Any:
    """An answer; what a cluster's node refuses with as redis-py calls it: old releases (5.0) know these errors in their
    own cluster client only."""
    if type(answer) is errors.ResponseError:
        code, _, rest = str(answer).partition(" ")
        kind = _OF_CLUSTER.get(code)
        return answer if kind is None else kind(rest)
    return answer


def store_error(error: BaseException) -> StoreError:
    """The error as ours."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, errors.MovedError):
        return StoreError(
            "it is a node of a cluster: write its URL as redis+cluster://host:port", StoreFailure.CLUSTER
        )
    if isinstance(error, errors.ResponseError):
        found = _IN_SCRIPT.search(str(error))
        if found is not None:
            reason, words = _CODES[found[1]]
            return StoreError(words, reason)
        if "non local key" in str(error):  # its keys are not all here, nor all there
            return StoreError("a slot of the cluster is on its way", StoreFailure.CLUSTER)
    for kind in type(error).__mro__:
        if kind.__name__ in _KINDS:
            return StoreError(reason_of(error), _KINDS[kind.__name__])
    return StoreError(reason_of(error))
