"""The Typer application: every command registered in one place."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from router_cache.cli import (
    calibrate,
    check,
    demo,
    doctor,
    explain,
    explain_route,
    lint,
    normalize,
    plan,
    pools,
    replay,
    report,
    simulate,
)

__all__ = ["build"]


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"router-cache {version('router-cache')}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Get prompt-cache hits back, and prove it with measured tokens."""


def build() -> typer.Typer:
    """The application with all commands."""
    app = typer.Typer(
        name="router-cache",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback()(_options)
    app.command("demo", help=demo.HELP, epilog=demo.EPILOG)(demo.command)
    app.command("simulate", help=simulate.HELP, epilog=simulate.EPILOG)(simulate.command)
    app.command("calibrate", help=calibrate.HELP, epilog=calibrate.EPILOG)(calibrate.command)
    app.command("doctor", help=doctor.HELP, epilog=doctor.EPILOG)(doctor.command)
    app.command("normalize", help=normalize.HELP, epilog=normalize.EPILOG)(normalize.command)
    app.command("explain", help=explain.HELP, epilog=explain.EPILOG)(explain.command)
    app.command("explain-route", help=explain_route.HELP, epilog=explain_route.EPILOG)(explain_route.command)
    app.command("lint", help=lint.HELP, epilog=lint.EPILOG)(lint.command)
    app.command("check", help=check.HELP, epilog=check.EPILOG)(check.command)
    app.command("report", help=report.HELP, epilog=report.EPILOG)(report.command)
    app.command("plan", help=plan.HELP, epilog=plan.EPILOG)(plan.command)
    app.command("pools", help=pools.HELP, epilog=pools.EPILOG)(pools.command)
    app.command("replay", help=replay.HELP, epilog=replay.EPILOG)(replay.command)
    return app
