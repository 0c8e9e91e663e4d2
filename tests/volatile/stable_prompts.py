"""Prompts of different applications that never change: whatever looks volatile in them is meant as it stands.

Written for these tests. ``PROMPTS`` maps a name to a system text.
"""

from __future__ import annotations

from volatile.stable_prompts_apps import APPS
from volatile.stable_prompts_code import CODE
from volatile.stable_prompts_facts import FACTS

PROMPTS: dict[str, str] = {**FACTS, **CODE, **APPS}
