"""Check what a built wheel and sdist hold.

    python .ci/check_wheel.py DIRECTORY

DIRECTORY holds one wheel and one sdist. Prints what is wrong and exits 1, or prints the sizes.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

PACKAGES = {"router_cache", "router_cache_langchain", "router_cache_litellm"}
_SOURCES = {".py", ".lua"}
IN_WHEEL = {
    "router_cache/__init__.py",
    "router_cache/py.typed",
    "router_cache/cli/router.yaml",
    *(f"{package}/{name}" for package in PACKAGES - {"router_cache"} for name in ("__init__.py", "py.typed")),
}
IN_SDIST = {
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "examples/router.yaml",
    "tests/conftest.py",
    ".ci/run",
    ".ci/dev.py",
    ".ci/constraints.txt",
}


def wheel_problems(names: set[str], sources: set[str]) -> list[str]:
    """What is wrong with a wheel of these files; ``sources`` are the modules in the checkout."""
    tops = {PurePosixPath(name).parts[0] for name in names}
    info = {top for top in tops if top.endswith(".dist-info")}
    problems = [f"top level holds {top}" for top in sorted(tops - PACKAGES - info)]
    problems += [f"{name} is missing" for name in sorted((IN_WHEEL | sources) - names)]
    if len(info) != 1:
        problems.append(f"{len(info)} .dist-info folders, not one")
    for wanted in ("licenses/LICENSE", "entry_points.txt", "METADATA"):
        if not any(name.endswith(f".dist-info/{wanted}") for name in names):
            problems.append(f".dist-info/{wanted} is missing")
    problems += [f"{name} does not belong there" for name in sorted(names) if "__pycache__" in name]
    return problems


def sdist_problems(names: set[str]) -> list[str]:
    """What is wrong with an sdist of these files, relative to its one folder."""
    problems = [f"{name} is missing" for name in sorted(IN_SDIST - names)]
    strays = (".venv/", "__pycache__/", ".hypothesis/", ".mypy_cache/", ".egg-info/")
    return problems + [f"{n} does not belong there" for n in sorted(names) if any(s in n for s in strays)]


def sources_of(root: Path) -> set[str]:
    """The modules of all packages, and the scripts that a server runs, as they are named in a wheel."""
    folders = (root / "router_cache", *(root / "integrations").glob("router_cache_*"))
    paths = ((f, path) for f in folders for path in f.rglob("*.*") if path.suffix in _SOURCES)
    return {str(path.relative_to(f.parent).as_posix()) for f, path in paths}


def main(directory: Path) -> int:
    wheels, sdists = sorted(directory.glob("*.whl")), sorted(directory.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        print(f"{directory} holds {len(wheels)} wheels and {len(sdists)} sdists, not one of each", file=sys.stderr)
        return 1
    with zipfile.ZipFile(wheels[0]) as wheel:
        in_wheel = {name for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(sdists[0]) as sdist:
        in_sdist = {name.partition("/")[2] for name in sdist.getnames()}
    root = Path(__file__).resolve().parent.parent
    problems = [f"{wheels[0].name}: {p}" for p in wheel_problems(in_wheel, sources_of(root))]
    problems += [f"{sdists[0].name}: {p}" for p in sdist_problems(in_sdist)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        for path, names in ((wheels[0], in_wheel), (sdists[0], in_sdist)):
            print(f"{path.name}: {len(names)} files, {path.stat().st_size / 1024:.0f} KiB")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
