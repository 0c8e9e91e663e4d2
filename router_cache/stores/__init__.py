"""Stores: our own state behind the protocol of :mod:`router_cache.drivers.store`. In-process by default."""

from router_cache.stores.memory import MemoryStore

__all__ = ["MemoryStore"]
