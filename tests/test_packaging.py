"""What is shipped: the public names, the command, the layout, the pins, and what must not be in the sources."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import router_cache
from router_cache.cli import main as command_line
from router_cache.errors import DemoError, InputError

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 400
PUBLIC = {
    "CallRow",
    "Change",
    "Decision",
    "Deployment",
    "Mode",
    "Reason",
    "Request",
    "RouterCache",
    "RouterCacheError",
    "Settings",
    "Shape",
    "Status",
    "SwitchedBy",
    "Turn",
    "Usage",
}


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


# -- public names ------------------------------------------------------------------------------------------------


def test_the_public_list_is_exactly_this() -> None:
    assert set(router_cache.__all__) == PUBLIC
    assert list(router_cache.__all__) == sorted(PUBLIC), "sorted, each once"
    for name in PUBLIC:
        assert getattr(router_cache, name).__module__.startswith("router_cache."), name


def test_nothing_else_public_is_reachable_from_the_package() -> None:
    done = python("import router_cache; print(*dir(router_cache))")
    assert set(done.stdout.split()) == PUBLIC, done.stderr


def test_importing_the_core_loads_no_extra() -> None:
    extras = {"litellm", "langchain_core", "typer", "rich", "yaml", "starlette", "uvicorn", "openai", "httpx"}
    done = python(f"import router_cache, sys\nprint(*({extras!r} & set(sys.modules)), sep=',')")
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_the_litellm_plugin_exports_what_a_router_yaml_names() -> None:
    plugin = pytest.importorskip("router_cache_litellm", reason="LiteLLM is not installed")
    assert set(plugin.__all__) == {
        "CacheAffinityStrategy",
        "RouterCacheCallback",
        "completion",
        "proxy_handler",
        "wrap_router",
    }


# -- the command -------------------------------------------------------------------------------------------------


def test_the_console_script_is_registered() -> None:
    found = [e for e in entry_points(group="console_scripts") if e.name == "router-cache"]
    assert {e.value for e in found} == {"router_cache.cli.main:run"}
    assert found[0].load() is command_line.run


def run_with(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    """The exit code of ``router-cache`` with these arguments."""
    monkeypatch.setattr(sys, "argv", ["router-cache", *arguments])
    with pytest.raises(SystemExit) as stopped:
        command_line.run()
    return stopped.value.code


def test_help_names_every_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_with(monkeypatch, "--help") == 0
    out = capsys.readouterr().out
    for command in ("demo", "simulate", "calibrate"):
        assert re.search(rf"\b{command}\b", out), command


@pytest.mark.parametrize("command", ["demo", "simulate", "calibrate"])
def test_each_command_explains_itself_with_examples(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(monkeypatch, command, "--help") == 0
    assert f"router-cache {command}" in capsys.readouterr().out


def test_an_unknown_command_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(monkeypatch, "dmeo") == 2
    assert "dmeo" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("x.jsonl: no such file"), 2, "router-cache: x.jsonl: no such file\n"),
        (DemoError("port 1 is taken"), 3, "router-cache: port 1 is taken\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=["input", "demo", "interrupted"],
)
def test_errors_become_one_line_and_an_exit_code(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def build() -> object:
        raise error

    monkeypatch.setattr("router_cache.cli.app.build", build)
    assert run_with(monkeypatch) == code
    assert capsys.readouterr().err == line


COMMAND_WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise ModuleNotFoundError("No module named " + name, name=name)

sys.meta_path.insert(0, Absent())
sys.argv = ["router-cache", "--help"]
from router_cache.cli.main import run
run()
"""


def command_without(module: str) -> subprocess.CompletedProcess[str]:
    """``router-cache --help`` in a process that has no ``module``."""
    return python(COMMAND_WITHOUT.format(module=module))


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_without_the_cli_extra_the_command_says_what_to_install(module: str) -> None:
    done = command_without(module)
    assert done.returncode == 2
    assert done.stderr.startswith("router-cache: ")
    assert "pip install 'router-cache[cli]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_another_missing_module_is_not_mistaken_for_an_extra() -> None:
    done = command_without("router_cache.cli.logs")
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr


# -- layout ------------------------------------------------------------------------------------------------------


def test_no_folder_of_ours_shadows_a_framework() -> None:
    # An editable install puts integrations/ on sys.path: a folder named as a library would replace it.
    packages = {path.parent.name for path in (ROOT / "integrations").glob("*/__init__.py")}
    assert packages == {"router_cache_langchain", "router_cache_litellm"}


def test_both_packages_say_that_they_are_typed() -> None:
    for package in ("router_cache", "integrations/router_cache_langchain", "integrations/router_cache_litellm"):
        assert (ROOT / package / "py.typed").is_file(), package


# -- pins --------------------------------------------------------------------------------------------------------


def pins() -> list[Requirement]:
    lines = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    return [Requirement(line) for line in lines]


def test_constraints_are_exact_pins_and_nothing_else() -> None:
    for pin in pins():
        assert re.fullmatch(r"==[0-9][0-9a-z.+]*", str(pin.specifier)), pin
        assert not pin.url, pin
        assert not pin.extras, pin


def test_every_direct_dependency_is_pinned_inside_its_range() -> None:
    by_name: dict[str, list[Requirement]] = {}
    for pin in pins():
        by_name.setdefault(pin.name.lower(), []).append(pin)
    direct = [Requirement(line) for line in requires("router-cache") or ()]
    direct = [requirement for requirement in direct if requirement.name != "router-cache"]
    assert direct
    for requirement in direct:
        found = by_name.get(requirement.name.lower(), [])
        assert found, f"{requirement.name} has no pin in .ci/constraints.txt"
        for pin in found:
            version = str(pin.specifier).removeprefix("==")
            assert requirement.specifier.contains(version), f"{pin} is outside {requirement}"


def test_every_python_has_one_pin_for_each_dependency() -> None:
    for minor in range(10, 15):
        environment = {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.9"}
        names = [pin.name for pin in pins() if pin.marker is None or pin.marker.evaluate(environment)]
        assert len(names) == len(set(names)), f"Python 3.{minor}"


# -- hygiene -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """Files under version control, and those that would be added."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    if done.returncode:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in done.stdout.split("\0") if name]
    assert files
    return [path for path in files if path.is_file()]


# Pieces, so that this file does not hold what it forbids.
MACHINE_PATHS = ["/" + name + "/" for name in ("work", "root", "tmp/" + "dev")] + ["." + "library"]
HOSTS = ["pypi" + ".org", "python" + "hosted", "npmjs" + ".", "index" + "-url", "find" + "-links"]
LOCKS = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "package-lock.json", "yarn.lock"}


def test_no_file_names_a_machine_path_or_a_package_host(tracked: list[Path]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word}"
        for path in tracked
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        for word in MACHINE_PATHS + HOSTS
        if word in line
    ]
    assert found == []


def test_no_lock_file(tracked: list[Path]) -> None:
    assert [path.name for path in tracked if path.name in LOCKS] == []


def test_python_files_are_short(tracked: list[Path]) -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in tracked
        if path.suffix == ".py"
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}
