r"""Markers: one-line claims that stage code, magics and agents print, and the scanner that finds them.

::

    line      = blanks "[" TYPE *( ":" part ) "]" [ blank ] content
    TYPE      = upper-case ASCII letter, then such letters, digits and "_"
    part      = key "=" value            an attribute; the first "=" splits
              | subtype                  the first part without "="; there is at most one

Rules
1. A line that does not begin with ``[TYPE:`` or ``[TYPE]`` is no marker: `parse_marker` gives None. Python
   lists, ``[ 12%]``, ``[2024-01-01]`` and ``[INFO 12:00]`` are none.
2. A line that begins so and breaks a rule is a `MarkerProblem`: empty part, second bare part (usually a ``:``
   inside a value that should be ``%3A``), an attribute without a name or named twice, escapes that are no
   UTF-8, a wrong STAGE, CHECKPOINT or REHYDRATED. A missing ``]`` is a problem for a known type; with an
   unknown type it is most likely somebody's log, and None.
3. In parts, ``:`` ``]`` ``%`` ``=`` and control characters are percent-encoded as UTF-8. A ``%`` that is not
   followed by two hex digits stands for itself, so that ``[METRIC:accuracy=95%]`` is what its author meant.
4. In content, which is prose, only control characters other than the tab are encoded, and only their codes
   are decoded: ``50%20done`` stays as it is. A literal ``%0A`` travels as ``%250A``.
5. Types that are not in the taxonomy are kept with ``known=False``.
6. Colour codes and other terminal sequences are removed before anything else is looked at.
7. STAGE takes further attributes (``loss=0.3``); CHECKPOINT and REHYDRATED take only those listed.

A marker is a claim. Nothing here knows whether a stage or a checkpoint of that id exists. Decoded values may
hold control characters: who shows them to a person escapes them first.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from gyoshu_ckpt.core import ids
from gyoshu_ckpt.errors import BadName

LONGEST_LINE = 65536  # characters, colour codes included; a longer line is no marker


class Category(StrEnum):
    """The families of the taxonomy."""

    WORKFLOW = "workflow"
    PROCESS = "process"
    DATA = "data"
    CALCULATION = "calculation"
    ARTIFACT = "artifact"
    INSIGHT = "insight"
    SCIENCE = "science"
    UNKNOWN = "unknown"


TAXONOMY: Mapping[str, Category] = MappingProxyType(
    {
        type_: category
        for category, types in {
            Category.WORKFLOW: "STAGE CHECKPOINT REHYDRATED STEP CHECK INFO WARNING ERROR DEBUG",
            Category.PROCESS: "OBJECTIVE HYPOTHESIS EXPERIMENT OBSERVATION ANALYSIS CONCLUSION",
            Category.DATA: "DATA SHAPE DTYPE RANGE MISSING MEMORY",
            Category.CALCULATION: "CALC METRIC STAT CORR",
            Category.ARTIFACT: "PLOT ARTIFACT TABLE FIGURE",
            Category.INSIGHT: "FINDING INSIGHT PATTERN",
            Category.SCIENCE: "CITATION LIMITATION NEXT_STEP DECISION SO_WHAT",
        }.items()
        for type_ in types.split()
    }
)


@dataclass(frozen=True, slots=True)
class Marker:
    """A well-formed marker, decoded."""

    type: str
    subtype: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()  # in the order in which they were written
    content: str = ""

    @property
    def known(self) -> bool:
        """Whether the taxonomy has this type."""
        return self.type in TAXONOMY

    @property
    def category(self) -> Category:
        """The family of the type; UNKNOWN for one that the taxonomy lacks."""
        return TAXONOMY.get(self.type, Category.UNKNOWN)

    def get(self, name: str) -> str | None:
        """The value of an attribute, or None."""
        return next((value for key, value in self.attributes if key == name), None)


@dataclass(frozen=True, slots=True)
class MarkerProblem:
    """A line that was meant as a marker and is none: a diagnostic. The excerpt is safe to print."""

    line_excerpt: str
    reason: str


_HEAD = re.compile(r"[ \t]*\[([A-Z][A-Z0-9_]*)(?=[:\]])")
# CSI (colours, cursor), OSC (titles, links), charset choice, two-character escapes. None spans a line end.
_TERMINAL_SEQUENCE = (
    r"(?:(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|\x1b\][^\x07\x1b\r\n]*+(?:\x07|\x1b\\)"
    r"|\x1b[ -/]++[0-~]"
    r"|\x1b[0-Z\\^-~])"
)
_TERMINAL = re.compile(_TERMINAL_SEQUENCE)
_RESERVED = re.compile(r"[:\]%=\x00-\x1f\x7f-\x9f]")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
# The code of a control character behind any number of escaped percent signs: %0A, %250A, %25250A …
_CONTROL_CODE = re.compile(r"%((?:25)*)([01][0-9A-Fa-f]|7[Ff]|[Cc]2%[89][0-9A-Fa-f])")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_DURATION = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h)")
_PERCENTAGE = re.compile(r"[0-9]{1,3}(?:\.[0-9]+)?")


def parse_marker(line: str) -> Marker | MarkerProblem | None:
    """Read one line, with or without its line end. None: it is no marker at all."""
    line = line.rstrip("\r\n")
    if "\n" in line or "\r" in line:
        return None
    if "\x1b" in line or "\x9b" in line:
        line = _TERMINAL.sub("", line)
    head = _HEAD.match(line)
    if head is None:
        return None
    type_ = head[1]
    close = line.find("]", head.end())
    if close < 0:
        return _problem(line, "the closing ] is missing") if type_ in TAXONOMY else None
    if _SURROGATE.search(line):
        return _problem(line, "it is not valid Unicode")
    parts = line[head.end() + 1 : close].split(":") if close > head.end() else []
    content = line[close + 1 :]
    if content[:1] in {" ", "\t"}:
        content = content[1:]
    marker = _from_parts(type_, parts, _CONTROL_CODE.sub(_decode_control, content))
    if isinstance(marker, Marker):
        rule = _RULES.get(type_)
        reason = rule(marker) if rule is not None else None
        return marker if reason is None else _problem(line, reason)
    return _problem(line, marker)


def format_marker(
    type: str,
    subtype: str | None = None,
    attributes: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
    content: str = "",
) -> str:
    """The line, without its end, that `parse_marker` reads as exactly these values.

    :class:`BadName` refuses what could not be read back: a type of the wrong form, an empty part, lone
    surrogates, a wrong STAGE, CHECKPOINT or REHYDRATED, or a line above `LONGEST_LINE`.
    """
    pairs = tuple(attributes.items() if isinstance(attributes, Mapping) else attributes or ())
    parts = [type] if subtype is None else [type, _encode_part(subtype)]
    parts += [f"{_encode_part(key)}={_encode_part(value)}" for key, value in pairs]
    prose = _CONTROL.sub(_encode_match, _CONTROL_CODE.sub(r"%25\1\2", content))
    line = f"[{':'.join(parts)}]" + (f" {prose}" if prose else "")
    read_back = parse_marker(line)
    if read_back != Marker(type, subtype, pairs, content) or len(line) > LONGEST_LINE:
        reason = read_back.reason if isinstance(read_back, MarkerProblem) else "it could not be read back"
        raise BadName(f"cannot print the marker {_excerpt(line)}: {reason}")
    return line


class MarkerScanner:
    """Finds the markers of one output stream that arrives in chunks cut anywhere.

    ``\\n``, ``\\r\\n`` and a lone ``\\r`` (progress bars) end a line. At most ``max_line`` characters of an
    unfinished line are kept, so memory stays bounded whatever is printed. Use one scanner per stream.
    """

    # Possessive, and no alternative of the group starts like another: linear in the chunk.
    _LINE_START = re.compile(rf"\n(?:[ \t]|{_TERMINAL_SEQUENCE})*+\[(?=[A-Z\x1b\x9b])")

    def __init__(self, max_line: int = LONGEST_LINE) -> None:
        self._max_line = max_line
        self._held = io.StringIO()  # the unfinished line, as far as it fitted
        self._length = 0  # of the unfinished line

    def feed(self, text: str) -> list[Marker | MarkerProblem]:
        """Take the next chunk; return the markers of all lines that it finishes."""
        if "\r" in text:
            text = text.replace("\r", "\n")  # of CRLF an empty line remains, which is no marker
        end = text.find("\n")
        if end < 0:
            self._hold(text)
            return []
        self._hold(text[:end])
        found = self.finish()
        if "[" in text:
            for start in self._LINE_START.finditer(text, end):
                line_end = text.find("\n", start.end())
                if line_end < 0:
                    break
                if line_end - start.start() - 1 <= self._max_line:
                    self._read(text[start.start() + 1 : line_end], found)
        self._hold(text[text.rfind("\n") + 1 :])
        return found

    def finish(self) -> list[Marker | MarkerProblem]:
        """End the current line, as at the end of the stream. The scanner can go on with a new one."""
        found: list[Marker | MarkerProblem] = []
        if 0 < self._length <= self._max_line:
            self._read(self._held.getvalue(), found)
        if self._length:
            self._held = io.StringIO()
            self._length = 0
        return found

    def _hold(self, text: str) -> None:
        self._length += len(text)
        if self._length <= self._max_line:
            self._held.write(text)

    @staticmethod
    def _read(line: str, found: list[Marker | MarkerProblem]) -> None:
        marker = parse_marker(line)
        if marker is not None:
            found.append(marker)


def _from_parts(type_: str, parts: list[str], content: str) -> Marker | str:
    """The marker, or the reason why the parts make none."""
    subtype: str | None = None
    attributes: dict[str, str] = {}
    for part in parts:
        raw_key, splits, raw_value = part.partition("=")
        try:
            key, value = _decode_part(raw_key), _decode_part(raw_value)
        except UnicodeDecodeError:
            return f"the percent codes of {_quoted(part)} are not UTF-8"
        if splits and not key:
            return "an attribute has no name"
        if splits and key in attributes:
            return f"the attribute {_quoted(key)} stands twice"
        if splits:
            attributes[key] = value
        elif not key:
            return "a part between colons is empty"
        elif subtype is not None:
            bare = f"both {_quoted(subtype)} and {_quoted(key)} stand without '='"
            return f"{bare}; inside a value write ':' as %3A"
        else:
            subtype = key
    return Marker(type_, subtype, tuple(attributes.items()), content)


def _stage_reason(marker: Marker) -> str | None:
    if marker.subtype not in {"begin", "progress", "end"}:
        return "STAGE is followed by begin, progress or end"
    pct, duration = marker.get("pct"), marker.get("duration")
    if pct is not None and (not _PERCENTAGE.fullmatch(pct) or float(pct) > 100):
        return f"pct={_quoted(pct)} is not a number from 0 to 100"
    if duration is not None and not _DURATION.fullmatch(duration):
        return f"duration={_quoted(duration)} is not a time such as 120s"
    return _name_reason(marker, "id", ids.check_stage_id, required=True)


def _checkpoint_reason(marker: Marker) -> str | None:
    if marker.subtype not in {"begin", "saved", "end", "emergency"}:
        return "CHECKPOINT is followed by begin, saved, end or emergency"
    return (
        _unlisted_reason(marker, ("id", "runId", "stage", "manifest", "status", "reason"))
        or _name_reason(marker, "id", ids.check_checkpoint_id, required=True)
        or _name_reason(marker, "runId", ids.check_run_id)
        or _name_reason(marker, "stage", ids.check_stage_id)
        or _name_reason(marker, "manifest", _check_manifest_path)
    )


def _rehydrated_reason(marker: Marker) -> str | None:
    if marker.subtype is not None:
        return "REHYDRATED has no subtype: [REHYDRATED:from=ckpt-001]"
    return _unlisted_reason(marker, ("from",)) or _name_reason(
        marker, "from", ids.check_checkpoint_id, required=True
    )


_RULES: Mapping[str, Callable[[Marker], str | None]] = MappingProxyType(
    {"STAGE": _stage_reason, "CHECKPOINT": _checkpoint_reason, "REHYDRATED": _rehydrated_reason}
)


def _unlisted_reason(marker: Marker, allowed: tuple[str, ...]) -> str | None:
    extra = [key for key, _ in marker.attributes if key not in allowed]
    return f"{marker.type} has no attribute {_quoted(extra[0])}, only {' '.join(allowed)}" if extra else None


def _name_reason(
    marker: Marker, attribute: str, check: Callable[[str], str], required: bool = False
) -> str | None:
    value = marker.get(attribute)
    if value is None:
        return f"the attribute {attribute}= is missing" if required else None
    try:
        check(value)
    except BadName as refusal:
        return f"{attribute}=: {refusal.message}"
    return None


def _check_manifest_path(text: str) -> str:
    # Looser than ids.check_relative_path, because nothing is ever opened by what a marker says.
    if not text.isprintable() or "\\" in text or {"", ".", ".."} & set(text.split("/")):
        raise BadName(f"{_quoted(text)} is not a path below the root")
    return text


def _encode_part(text: str) -> str:
    return _RESERVED.sub(_encode_match, text)


def _encode_match(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


def _decode_part(text: str) -> str:
    return _ESCAPES.sub(lambda codes: bytes.fromhex(codes[0].replace("%", "")).decode(), text)


def _decode_control(match: re.Match[str]) -> str:
    if match[1]:
        return f"%{match[1][2:]}{match[2]}"
    return bytes.fromhex(match[2].replace("%", "")).decode()


def _problem(line: str, reason: str) -> MarkerProblem:
    return MarkerProblem(_excerpt(line), reason)


def _quoted(text: str) -> str:
    return f"'{_excerpt(text, 60)}'"


def _excerpt(text: str, longest: int = 160) -> str:
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
