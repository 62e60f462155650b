"""Which codecs there are. Found through the entry-point group ``gyoshu_ckpt.codecs``, once per process.

Rules
1. Looking costs milliseconds: the modules of our codecs import their libraries only when they work.
2. A codec of a third party that cannot be loaded breaks nothing but itself: it is left out, and
   `codec_named` says why when a manifest asks for it.
3. Our own codecs cannot be replaced by an entry point of the same name: a manifest that says ``npy`` means
   one format everywhere.

Not handled here: trying codecs on a value (`encoding`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gyoshu_ckpt.codecs.interface import Codec
from gyoshu_ckpt.errors import Unavailable

GROUP = "gyoshu_ckpt.codecs"


@dataclass(frozen=True, slots=True)
class Registry:
    """What the entry points gave: codecs in the order in which they are asked, and those that failed."""

    codecs: tuple[Codec, ...]
    broken: dict[str, str]  # name -> why


@cache
def installed() -> Registry:
    """All codecs of this environment."""
    codecs: dict[str, Codec] = {}
    broken: dict[str, str] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: (not _is_ours(e), e.name, e.value)):
        if entry.name in codecs:
            continue  # rule 3; the same line also turns up twice when a package is installed twice
        try:
            codecs[entry.name] = _loaded(entry)
        except Exception as problem:  # whatever a stranger's module raises when it is imported
            broken.setdefault(entry.name, f"{entry.value} failed: {type(problem).__name__}: {problem}")
    return Registry(tuple(sorted(codecs.values(), key=lambda c: (c.priority, c.name))), broken)


def codec_named(name: str) -> Codec:
    """The codec that a manifest calls ``name``; :class:`Unavailable` if it is not here or is broken."""
    for codec in installed().codecs:
        if codec.name == name:
            return codec
    if name in installed().broken:
        raise Unavailable(
            f"the codec {name} is installed but cannot be used: {installed().broken[name]}",
            next_step="pip install --upgrade the package that brings it, then try the same command again",
        )
    raise Unavailable(
        f"written by the codec {name}, which is not installed here",
        next_step=f"pip install the package that brought {name} when it was saved, "
        "or pip install --upgrade gyoshu-ckpt if it is one of ours",
    )


def codecs_for_suffix(suffix: str) -> tuple[Codec, ...]:
    """The codecs that write files with ``suffix``, the one to be asked first in front."""
    return tuple(codec for codec in installed().codecs if suffix in codec.suffixes)


def codec_for_suffix(suffix: str) -> Codec | None:
    """The codec that is asked first for files with ``suffix``, or None."""
    return next(iter(codecs_for_suffix(suffix)), None)


@cache
def known_suffixes() -> tuple[str, ...]:
    """Every suffix that an output may be given, sorted."""
    return tuple(sorted({suffix for codec in installed().codecs for suffix in codec.suffixes}))


def suffix_of(file_name: str) -> str | None:
    """The longest known suffix of ``file_name`` (``.figure.pkl`` before ``.pkl``), or None."""
    endings = [suffix for suffix in known_suffixes() if file_name.lower().endswith(suffix)]
    return max(endings, key=len, default=None)


def candidates(value: Any) -> tuple[Codec, ...]:
    """The codecs that are meant for ``value``, in the order in which they are to be tried."""
    return tuple(codec for codec in installed().codecs if not codec.only_on_request and accepts(codec, value))


def accepts(codec: Codec, value: Any) -> bool:
    """As ``codec.accepts``, but a value that resents being looked at (a proxy, say) is just not accepted."""
    try:
        return codec.accepts(value)
    except Exception:
        return False


def _is_ours(entry: EntryPoint) -> bool:
    return entry.value.startswith("gyoshu_ckpt.")


def _loaded(entry: EntryPoint) -> Codec:
    codec = entry.load()
    if not isinstance(codec, Codec):
        raise TypeError(f"{entry.value} is not an instance of gyoshu_ckpt.codecs.interface.Codec")
    if codec.name != entry.name:
        raise ValueError(f"the codec calls itself {codec.name!r}")
    return codec
