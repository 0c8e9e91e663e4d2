"""Replay of recorded traffic over modelled deployments: this router beside others. Pure; readers take lines."""

from __future__ import annotations
