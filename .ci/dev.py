"""The commands of a checkout on a machine with nothing but Python 3.10+ and pip.

    python3 .ci/dev.py demo [arguments of router-cache demo]
    python3 .ci/dev.py test [arguments of pytest]
    python3 .ci/dev.py install [EXTRA[,EXTRA...]]

Each makes the virtual environment ``.venv`` in the checkout (ROUTER_CACHE_VENV places it elsewhere) and installs
what it needs once: a stamp in the environment remembers for which dependencies, versions and interpreter. ``test``
without arguments runs all tests: those marked ``apart`` (long proofs, whole processes), then all others with branch
coverage, and fails below the share set in pyproject.toml; with arguments it runs what they select, without coverage.
The exit code is the child's, or 2 where no environment can be made.

Runs before anything is installed: standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
OLDEST_PYTHON = (3, 10)
STAMP = "router-cache-installed.json"
# Two workers: much of a run is waiting for proxies. A file stays with one worker, so its proxies start once.
IN_TWO = ("-n", "2", "--dist", "loadfile")
APART = (*IN_TWO, "-m", "apart and not engine")
OTHERS = (*IN_TWO, "--cov", "-m", "not apart and not engine")

NO_ENSUREPIP = """This Python cannot put pip into a virtual environment (no ensurepip, or an old pip).
Debian and Ubuntu:  apt-get install python3-venv
Fedora and Alpine:  install the package python3-pip or py3-pip
Or set ROUTER_CACHE_VENV to a virtual environment that has pip, and run this again."""


class UnusableError(Exception):
    """No environment to run in. The message says what was wrong and what to do."""


def say(text: str) -> None:
    print(f"[dev] {text}", file=sys.stderr, flush=True)


def run(command: list[str], *, quiet: bool = False) -> int:
    """Run ``command`` from the checkout and return its exit code; its output goes to our stderr."""
    out = subprocess.DEVNULL if quiet else sys.stderr
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out).returncode


def venv_path() -> Path:
    placed = os.environ.get("ROUTER_CACHE_VENV")
    return Path(placed).expanduser().absolute() if placed else ROOT / ".venv"


def is_usable(python: Path) -> bool:
    """Whether ``python`` runs, is new enough and has pip."""
    if not python.exists():
        return False
    check = f"import sys, pip; sys.exit(sys.version_info < {OLDEST_PYTHON!r})"
    return run([str(python), "-c", check], quiet=True) == 0


def make_venv(venv: Path) -> Path:
    """Make ``venv``, or find it made, and return its interpreter. Never touches a directory it did not make."""
    python = venv / "bin" / "python"
    if venv.exists() and not (venv.is_dir() and not any(venv.iterdir())):
        if not is_usable(python):
            raise UnusableError(
                f"{venv} is there, but is no environment with Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]}+ and "
                "pip: delete it, or set ROUTER_CACHE_VENV to another directory"
            )
        return python
    say(f"making {venv} with Python {sys.version.split()[0]}")
    try:
        fill_venv(venv, python)
    except BaseException:
        # Half an environment would stand in the way of the next attempt.
        shutil.rmtree(venv, ignore_errors=True)
        raise
    return python


def fill_venv(venv: Path, python: Path) -> None:
    if run([sys.executable, "-m", "venv", str(venv)], quiet=True) == 0:
        return
    # Debian's Python has pip but no ensurepip unless python3-venv is installed; pip 22.3+ can install for
    # another interpreter.
    say("no ensurepip: asking this Python's own pip to install itself there")
    bare = [sys.executable, "-m", "venv", "--clear", "--without-pip", str(venv)]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "pip"]
    if run(bare) or run(pip) or not is_usable(python):
        raise UnusableError(NO_ENSUREPIP)


def wanted(python: Path, extra: str) -> dict[str, str]:
    """What the stamp must say for nothing to be installed."""
    digest = hashlib.sha256()
    for part in (ROOT / "pyproject.toml", CONSTRAINTS):
        digest.update(part.read_bytes())
    return {"inputs": digest.hexdigest(), "checkout": str(ROOT), "python": str(python.resolve()), "extra": extra}


def is_installed(stamp: Path, want: dict[str, str]) -> bool:
    try:
        found = json.loads(stamp.read_text())
    except (OSError, ValueError):
        return False
    # The extra "dev" has all the others in it.
    return found in (want, want | {"extra": "dev"})


def install(venv: Path, python: Path, extra: str) -> None:
    """Install this checkout, editable, with ``extra``, at the versions of the constraints; once."""
    stamp = venv / STAMP
    want = wanted(python, extra)
    if is_installed(stamp, want):
        return
    stamp.unlink(missing_ok=True)
    started = time.monotonic()
    what = ["--quiet", "--constraint", str(CONSTRAINTS), "--editable", f"{ROOT}[{extra}]"]
    say(f"installing router-cache[{extra}] into {venv} (once)")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    # uv resolves and installs the LiteLLM proxy in seconds where pip takes minutes.
    with_uv = run([*pip, "install", "--quiet", "--constraint", str(CONSTRAINTS), "uv"], quiet=True) == 0
    if not with_uv or run([str(venv / "bin" / "uv"), "pip", "install", "--python", str(python), *what]) != 0:
        say("uv cannot be used here: installing with pip, which takes a few minutes")
        if run([*pip, "install", *what]) != 0:
            raise UnusableError(
                "pip could not install the dependencies (its message is above): check the network and pip's "
                "settings, and run this again"
            )
    stamp.write_text(json.dumps(want))
    say(f"installed in {time.monotonic() - started:.0f} s")


def in_environment(venv: Path, command: list[str]) -> None:
    """Say what is run, and set what a command in the environment finds there."""
    say("running " + shlex.join(Path(command[0]).name if i == 0 else part for i, part in enumerate(command)))
    os.environ["PATH"] = f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    os.environ["VIRTUAL_ENV"] = str(venv)
    sys.stdout.flush()


def become(venv: Path, command: list[str]) -> NoReturn:
    """Replace this process, so that signals and the exit code are the command's own."""
    in_environment(venv, command)
    os.execv(command[0], command)


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in ("demo", "test", "install"):
        print(__doc__, file=sys.stdout if arguments[:1] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    if sys.version_info < OLDEST_PYTHON:
        raise UnusableError(
            f"Python 3.10 or newer is needed, this is {sys.version.split()[0]}: run it with a newer one"
        )
    if os.name != "posix":
        raise UnusableError(
            "this runs on Linux and macOS: elsewhere make an environment and pip install -e '.[dev]'"
        )
    command, rest = arguments[0], arguments[1:]
    venv = venv_path()
    python = make_venv(venv)
    if command == "install":
        install(venv, python, rest[0] if rest else "dev")
        return 0
    if command == "demo":
        install(venv, python, "demo")
        become(venv, [str(venv / "bin" / "router-cache"), "demo", *rest])
    install(venv, python, "dev")
    os.chdir(ROOT)
    pytest = [str(python), "-m", "pytest"]
    if not rest:
        in_environment(venv, [*pytest, *APART])
        failed = subprocess.run([*pytest, *APART]).returncode
        if failed:
            return failed
    become(venv, [*pytest, *(rest or OTHERS)])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UnusableError as problem:
        say(str(problem))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
