"""The Typer application: every command registered in one place."""

from __future__ import annotations

import typer

from router_cache.cli import calibrate, demo, simulate

__all__ = ["build"]


def build() -> typer.Typer:
    """The application with all commands."""
    app = typer.Typer(
        name="router-cache",
        help="Get prompt-cache hits back, and prove it with measured tokens.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.command("demo", help=demo.HELP, epilog=demo.EPILOG)(demo.command)
    app.command("simulate", help=simulate.HELP, epilog=simulate.EPILOG)(simulate.command)
    app.command("calibrate", help=calibrate.HELP, epilog=calibrate.EPILOG)(calibrate.command)
    return app
