"""Names that end up in paths, markers and manifests, and the rules that each must keep.

Every entrance (command line, notebook, manifest, journal, kernel) validates through this module, so a name
that reached the inside is safe to join to a path and to print in a marker. Nothing here touches a disk.
"""

from __future__ import annotations

import re

from gyoshu_ckpt.errors import BadName

STAGE_ID = re.compile(r"S[0-9]{2,4}(?:_[a-z0-9]+){1,12}")
RUN_ID = re.compile(r"run-[0-9]{3,9}")
CHECKPOINT_ID = re.compile(r"ckpt-[0-9]{3,9}")
SHA256 = re.compile(r"[0-9a-f]{64}")

LONGEST_NAME_BYTES = 120  # leaves room for a temp-file suffix below the 255 bytes that filesystems take

# Names that some system treats as a device, whatever follows the dot: a store is copied between machines.
_DEVICE_NAMES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"com{n}" for n in range(1, 10)} | {f"lpt{n}" for n in range(1, 10)}
)
_FORBIDDEN_IN_FILE_NAMES = set('/\\<>:"|?*')


def check_stage_id(text: str) -> str:
    """Return ``text`` if it is a stage id such as ``S01_load_data``; raise :class:`BadName` if not."""
    if not STAGE_ID.fullmatch(text) or len(text) > LONGEST_NAME_BYTES:
        raise BadName(
            f"{_shown(text)} is not a stage id",
            next_step="name it S{two digits}_{verb}_{noun} in lower case, for example S01_load_data",
        )
    return text


def check_run_id(text: str) -> str:
    """Return ``text`` if it is a run id such as ``run-001``; raise :class:`BadName` if not."""
    if not RUN_ID.fullmatch(text):
        raise BadName(f"{_shown(text)} is not a run id", next_step="gyoshu list shows the runs: run-001, …")
    return text


def check_checkpoint_id(text: str) -> str:
    """Return ``text`` if it is a checkpoint id such as ``ckpt-001``; raise :class:`BadName` if not."""
    if not CHECKPOINT_ID.fullmatch(text):
        raise BadName(
            f"{_shown(text)} is not a checkpoint id",
            next_step="gyoshu show lists a run's checkpoints: ckpt-001, …",
        )
    return text


def check_sha256(text: str) -> str:
    """Return ``text`` if it is 64 lower-case hex digits; raise :class:`BadName` if not."""
    if not SHA256.fullmatch(text):
        raise BadName(f"{_shown(text)} is not a SHA-256 in lower-case hex")
    return text


def check_file_name(text: str, what: str = "artifact name") -> str:
    """Return ``text`` if it is safe as one path segment on every system; raise :class:`BadName` if not."""
    problem = _problem_with_file_name(text)
    if problem is not None:
        raise BadName(
            f"{_shown(text)} cannot be used as {what}: {problem}",
            next_step="use letters, digits, dots, dashes and underscores, for example scores.csv",
        )
    return text


def check_title(text: str) -> str:
    """Return ``text`` if it can name a folder below ``reports``; raise :class:`BadName` if not."""
    return check_file_name(text, "report title")


def check_relative_path(text: str) -> str:
    """Return ``text`` if each of its ``/``-separated segments is a safe file name."""
    for segment in text.split("/"):
        check_file_name(segment, f"part of the path {_shown(text)}")
    return text


def title_from_stem(stem: str) -> str:
    """Make a report title of a notebook's stem: what no title may hold becomes a dash."""
    cleaned = "".join("-" if c in _FORBIDDEN_IN_FILE_NAMES or not c.isprintable() else c for c in stem)
    cleaned = cleaned.strip(" .")
    while len(cleaned.encode()) > LONGEST_NAME_BYTES:
        cleaned = cleaned[:-1]
    return check_title(cleaned or "untitled")


def run_id(number: int) -> str:
    """``run_id(1) == "run-001"``."""
    return f"run-{number:03d}"


def checkpoint_id(sequence: int) -> str:
    """``checkpoint_id(1) == "ckpt-001"``."""
    return f"ckpt-{sequence:03d}"


def number_of(identifier: str) -> int:
    """The number inside a run or checkpoint id; both count upwards, so it is their order too."""
    return int(identifier.rpartition("-")[2])


def _problem_with_file_name(text: str) -> str | None:
    if not text:
        return "it is empty"
    if text in {".", ".."} or text.startswith("."):
        return "it starts with a dot"
    if not text.isprintable():
        return "it holds a control character"
    bad = sorted(set(text) & _FORBIDDEN_IN_FILE_NAMES)
    if bad:
        return f"it holds {' '.join(bad)}"
    if text != text.strip(" ") or text.endswith("."):
        return "it begins or ends with a blank, or ends with a dot"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if size > LONGEST_NAME_BYTES:
        return f"it is longer than {LONGEST_NAME_BYTES} bytes"
    if text.split(".", 1)[0].lower() in _DEVICE_NAMES:
        return "some systems reserve that name for a device"
    return None


def _shown(text: str) -> str:
    """``text`` in quotes for a message: short, and without anything that a terminal would obey."""
    return ascii(text if len(text) <= 80 else text[:77] + "…") if not text.isprintable() else f"'{text[:80]}'"
