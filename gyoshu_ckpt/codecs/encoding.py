"""The one door between values and bytes: `encode` for saving, `decode` for a resume.

Rules
1. Save refuses what it could not read back: every save is loaded again in the same process and compared,
   before it is committed. If it is not the same, the next codec is tried; if none is left, the refusal says
   why and what to do.
2. A file name that the user gave decides the codec. It is never swapped for another format silently.
3. A fault of the store is not a fault of the value: it stops the save and passes through as it is.
4. Interrupts pass through; leaving the writer without commit leaves nothing behind.

Not handled: where bytes go (`storage.objects`) and files that the stage wrote itself (`files`).
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from gyoshu_ckpt.codecs import refusals, registry
from gyoshu_ckpt.codecs.interface import Codec, Companion, SaveContext
from gyoshu_ckpt.codecs.streams import ForwardFile
from gyoshu_ckpt.core.ids import check_file_name
from gyoshu_ckpt.core.save_protocol import Trust
from gyoshu_ckpt.errors import BadPlan, GyoshuError, Unavailable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Stored(Protocol):
    """What a committed writer tells of its bytes."""

    @property
    def sha256(self) -> str:
        """In lower-case hex."""

    @property
    def size_bytes(self) -> int:
        """How many there are."""


class Writer(Protocol):
    """Takes the bytes of one object. `storage.objects.ObjectWriter` is the real one."""

    def write(self, data: ReadableBuffer, /) -> object:
        """Take all of ``data``."""

    def seal(self) -> object:
        """End writing."""

    def reopen(self) -> BinaryIO:
        """The sealed bytes, for reading."""

    def commit(self) -> Stored:
        """Make the bytes an object."""


OpenWriter = Callable[[], AbstractContextManager[Writer]]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A value, or a file beside it, that is now in the object store."""

    codec: str
    codec_version: int
    trust: Trust
    media_type: str
    file_name: str
    sha256: str
    size_bytes: int
    companions: tuple[Encoded, ...] = ()


def encode(
    value: Any, open_writer: OpenWriter, context: SaveContext, *, name: str, file_name: str | None = None
) -> Encoded:
    """Store ``value`` exactly, or raise :class:`ValueNotSavable`. ``name`` is what messages call it."""
    suffix = None if file_name is None else check_output_file_name(file_name)
    if suffix is None:
        codecs = registry.candidates(value)
    else:
        codecs = tuple(c for c in registry.codecs_for_suffix(suffix) if registry.accepts(c, value))
    reasons: list[str] = []
    for codec in codecs:
        outcome = _try(codec, value, open_writer, context)
        if not isinstance(outcome, str):
            return _described(codec, *outcome, open_writer, name, file_name, suffix)
        reasons.append(outcome)
    if file_name is not None and suffix is not None:
        raise refusals.not_as_asked(value, name, file_name, suffix, reasons)
    raise refusals.not_savable(value, name, reasons)


def decode(codec_name: str, version: int, file: BinaryIO, *, name: str = "a value") -> Any:
    """Read what `encode` stored. Any failure is :class:`Unavailable`: the bytes were verified before this."""
    codec = registry.codec_named(codec_name)
    if version > codec.version:
        raise Unavailable(
            f"{name} was written by version {version} of the codec {codec_name}, "
            f"and this environment reads up to version {codec.version}",
            next_step="pip install --upgrade gyoshu-ckpt, or the package that brings the codec",
        )
    try:
        return codec.load(file, version)
    except GyoshuError:
        raise
    except ModuleNotFoundError as missing:
        package = (missing.name or "the missing package").partition(".")[0]
        raise Unavailable(
            f"{name} cannot be loaded: it needs {package}, which is not installed here",
            next_step=f"pip install {package}, then try the same command again",
        ) from missing
    except Exception as problem:
        raise Unavailable(
            f"{name} is intact but cannot be loaded in this environment: {refusals.reason_of(problem)}",
            next_step="use the package versions that the checkpoint's manifest lists under pythonEnv, "
            "or run the stage that made it again",
        ) from problem


def check_output_file_name(file_name: str) -> str:
    """The suffix of a file name that the user wants for an output; :class:`BadPlan` if no codec writes it."""
    check_file_name(file_name, "file name of an output")
    suffix = registry.suffix_of(file_name)
    if suffix is None or suffix == file_name.lower():
        raise BadPlan(
            f"no codec keeps a value exactly in a file like '{file_name}'; "
            f"those that do are called {' '.join(registry.known_suffixes())}",
            next_step=f"write the file yourself to gy.artifact_path('{file_name}') "
            f"and declare --out {file_name}",
        )
    return suffix


def _try(
    codec: Codec, value: Any, open_writer: OpenWriter, context: SaveContext
) -> tuple[Stored, tuple[Companion, ...]] | str:
    """Save, read back, compare, commit; or the reason why not."""
    with open_writer() as writer:
        sink = ForwardFile(writer)
        try:
            codec.save(value, cast(BinaryIO, sink), context)
        except Exception as problem:
            if sink.fault is not None:
                raise sink.fault from None
            return _refusal(problem)
        writer.seal()
        with writer.reopen() as file:
            try:
                found = codec.prove(value, file, context)
                companions = tuple(codec.companions(value)) if found is None else ()
            except Exception as problem:
                return _refusal(problem)
        return found if found is not None else (writer.commit(), companions)


def _refusal(problem: Exception) -> str:
    if isinstance(problem, GyoshuError):
        raise problem
    return refusals.reason_of(problem)


def _described(
    codec: Codec,
    stored: Stored,
    companions: tuple[Companion, ...],
    open_writer: OpenWriter,
    name: str,
    file_name: str | None,
    suffix: str | None,
) -> Encoded:
    default = codec.suffixes[0]
    stem = name if file_name is None or suffix is None else file_name[: -len(suffix)]
    # A name such as fig.png is the companion's; the data then has its own suffix.
    if file_name is None or any(suffix == companion.suffix for companion in companions):
        file_name, media_type = stem + default, codec.media_type
    else:
        guessed = None if suffix == default else mimetypes.guess_type(file_name)[0]
        media_type = guessed or codec.media_type
    beside = tuple(_stored_companion(companion, stem, open_writer) for companion in companions)
    return Encoded(
        codec.name,
        codec.version,
        codec.trust,
        media_type,
        file_name,
        stored.sha256,
        stored.size_bytes,
        beside,
    )


def _stored_companion(companion: Companion, stem: str, open_writer: OpenWriter) -> Encoded:
    from gyoshu_ckpt.codecs.files import CODEC_NAME, CODEC_VERSION

    with open_writer() as writer:
        writer.write(companion.data)
        writer.seal()
        stored = writer.commit()
    file_name = stem + companion.suffix
    return Encoded(
        CODEC_NAME, CODEC_VERSION, "data", companion.media_type, file_name, stored.sha256, stored.size_bytes
    )
