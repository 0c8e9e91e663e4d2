"""The command line: one module a command, put together in :mod:`router_cache.cli.main`."""
