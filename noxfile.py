"""Every chore of the project, one session each. ``nox`` runs all checks; ``nox -l`` lists the rest."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import nox

SUPPORTED = ("3.11", "3.12", "3.13")
MINIMUM_COVERAGE = "90"

nox.options.sessions = ["lint", "docs", "tests"]
nox.options.error_on_missing_interpreters = False


def _let_pyenv_offer_all_versions() -> None:
    """pyenv's ``python3.12`` answers only for versions that PYENV_VERSION names."""
    if shutil.which("pyenv") is None or "PYENV_VERSION" in os.environ:
        return
    answer = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True, check=False)
    versions = answer.stdout.split()
    wanted = [version for minor in SUPPORTED for version in versions if version.startswith(f"{minor}.")]
    if wanted:
        os.environ["PYENV_VERSION"] = ":".join(wanted)


def _has(minor: str) -> bool:
    program = shutil.which(f"python{minor}")
    return (
        program is not None
        and subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0
    )


_let_pyenv_offer_all_versions()
AVAILABLE = tuple(minor for minor in SUPPORTED if _has(minor)) or (None,)
for _missing in set(SUPPORTED) - set(AVAILABLE):
    print(f"SKIPPED: this machine has no Python {_missing}; the tests are not run on it")


def _install(session: nox.Session, *groups: str) -> None:
    """The project as a user gets it, and the named dependency groups."""
    session.install(
        ".[scripts]", *nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), *groups)
    )


def _need_program(session: nox.Session, program: str, package: str) -> None:
    """Install a system program where that can be done; the tests that need it say loudly if it is missing."""
    if shutil.which(program) is None and shutil.which("apt-get") and os.geteuid() == 0:
        session.run("apt-get", "update", "-qq", external=True)
        session.run("apt-get", "install", "-y", "-qq", package, external=True)


@nox.session(python=AVAILABLE[0])
def lint(session: nox.Session) -> None:
    """Style, formatting and types."""
    _install(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session(python=AVAILABLE[0])
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    _install(session, "docs")
    session.run("python", "docs/draw_states.py", "--check")
    session.run("sphinx-build", "-q", "-W", "-b", "html", "docs", "docs/_build/html")


@nox.session(python=list(AVAILABLE))
def tests(session: nox.Session) -> None:
    """The test suite, on every supported Python that is here; the long forms and coverage on the first."""
    _need_program(session, "strace", "strace")
    _install(session, "test")
    first = session.python == AVAILABLE[0]
    arguments = session.posargs or ["-n", "2", "--dist", "worksteal", "-q"]
    if not first:
        session.run("pytest", "-m", "not slow", *arguments)
        return
    for leftover in Path().glob(".coverage*"):
        leftover.unlink()
    session.run("pytest", "--cov", "--cov-report=", "-m", "not slow", *arguments)
    if not session.posargs:
        session.run("coverage", "report", f"--fail-under={MINIMUM_COVERAGE}")
    # Without coverage: tracing a kernel that prints a gigabyte measures nothing but patience.
    session.run("pytest", "-m", "slow", *arguments)


@nox.session(python=AVAILABLE[0])
def bench(session: nox.Session) -> None:
    """Measure overhead against nbclient in the same run, and write docs/benchmarks.md."""
    _install(session, "test")
    session.run("python", "tests/benchmarks/overhead.py", "--write", "docs/benchmarks.md", *session.posargs)


@nox.session(python=AVAILABLE[0])
def recording(session: nox.Session) -> None:
    """Record the README's picture: a real crash and a real continue in a terminal."""
    _need_program(session, "tmux", "tmux")
    _install(session)
    session.run("python", "docs/record_crash.py")
