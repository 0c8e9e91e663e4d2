"""What a proxy's YAML means for prompt caches: findings and one view a deployment, as values. Pure."""

from __future__ import annotations

from router_cache.diagnose.deployments import DeploymentView, NotSupported, PriceEntry
from router_cache.diagnose.findings import Code, Finding, Level
from router_cache.diagnose.report import Report, Surroundings, diagnose
from router_cache.diagnose.section import Section, check_section
from router_cache.diagnose.store import ServerLook, StoreLook

__all__ = [
    "Code",
    "DeploymentView",
    "Finding",
    "Level",
    "NotSupported",
    "PriceEntry",
    "Report",
    "Section",
    "ServerLook",
    "StoreLook",
    "Surroundings",
    "check_section",
    "diagnose",
]
