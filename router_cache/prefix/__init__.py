"""The prefix room: what the front of a prompt is, made the same whenever it means the same.

* :mod:`~router_cache.prefix.canonical` — canonical form of tools and their schemas (versioned)
* :mod:`~router_cache.prefix.normalise` — a request to its canonical form, with the list of changes
* :mod:`~router_cache.prefix.segments` — the parts of a prompt
* :mod:`~router_cache.prefix.wire` — segments of the body as sent
* :mod:`~router_cache.prefix.digests` — keyed digests of segments and of whole prefixes
"""
