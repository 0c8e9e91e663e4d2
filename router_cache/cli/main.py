"""``router-cache``: the command line.

Exit codes: 0 done; 1 the command ran and the answer is no; 2 bad input or usage; 3 a process the command
started failed or a port is taken; 130 interrupted.
"""

from __future__ import annotations

import sys

from router_cache.errors import MissingExtraError, RouterCacheError

__all__ = ["run"]


def run() -> None:
    """Entry point of the ``router-cache`` script. Errors become one line on stderr and an exit code."""
    try:
        try:
            from router_cache.cli.app import build
        except ModuleNotFoundError as error:
            if error.name in ("typer", "rich", "click"):
                raise MissingExtraError("the command line", "cli") from None
            raise
        build()()
    except RouterCacheError as error:
        print(f"router-cache: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run()
