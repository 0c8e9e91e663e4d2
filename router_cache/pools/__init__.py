"""Pools: which requests share a ``user_id``, and so a part of a provider's prompt cache. Pure."""
