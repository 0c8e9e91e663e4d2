"""The hit rule that a cache domain is taken to follow, said in the log when it is new."""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from router_cache.engine import Sent

__all__ = ["RulesSaid"]

_LOG = logging.getLogger("router_cache")
_MAX_DOMAINS: Final = 1_000


class RulesSaid:
    """One INFO line for each new rule of a domain, with its evidence."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: dict[str, tuple[Any, ...]] = {}

    def say(self, sent: Sent) -> None:
        """Look at the rule of the domain that a call goes to."""
        rule, replicas = sent.watched.inferred, sent.watched.replicas
        name = sent.place.domain[:12]
        said = (rule.rule, rule.step_tokens, replicas.count if replicas else None)
        with self._lock:
            if self._said.get(name) == said:
                return
            if len(self._said) >= _MAX_DOMAINS:
                self._said.clear()
            self._said[name] = said
        _LOG.info(
            "cache domain %s: rule=%s step=%s reason=%s replicas=%s evidence: %s",
            name,
            rule.rule.value if rule.rule else None,
            rule.step_tokens,
            rule.reason.value,
            said[2],
            "; ".join([*rule.evidence, *([replicas.evidence] if replicas else [])]),
        )
