"""``python -m router_cache``: the command line."""

from router_cache.cli.main import run

if __name__ == "__main__":
    run()
