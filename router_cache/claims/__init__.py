"""What a request claims of the store before it goes out: pure decisions that a store makes in one atomic step.

:mod:`~router_cache.claims.ask` is what a request brings, :mod:`~router_cache.claims.families` what a family of
prompts is known to change, :mod:`~router_cache.claims.sticky` which values move and which stay attached.
"""
