"""The outputs of one cell while it runs: collected as Jupyter would show them, and bounded in memory.

Rules
1. Text of one stream that comes in pieces is one output. Of a long one the notebook keeps the beginning and
   the end; the whole goes to a spool file from the moment it grows past the cap.
2. Rich outputs count too: past their cap a line says what was left out, so a cell that draws ten thousand
   plots cannot take the supervisor's memory.
3. ``clear_output`` and ``update_display_data`` do what they do in Jupyter.
"""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any, TextIO

HEAD_CHARACTERS = 256 * 1024
TAIL_CHARACTERS = 256 * 1024
RICH_BYTES = 8 * 1024 * 1024


class StreamOutput:
    """Text of stdout or stderr: its beginning, its end, and how much there was."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._head: list[str] = []
        self._head_size = 0
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self.left_out = 0

    def append(self, text: str) -> None:
        """Take in more text."""
        room = HEAD_CHARACTERS - self._head_size
        if room > 0:
            self._head.append(text[:room])
            self._head_size += min(room, len(text))
            text = text[room:]
        if not text:
            return
        if len(text) > TAIL_CHARACTERS:
            self.left_out += len(text) - TAIL_CHARACTERS
            text = text[-TAIL_CHARACTERS:]
        self._tail.append(text)
        self._tail_size += len(text)
        # Whole pieces go, so up to one piece more than the cap is kept: cutting each time would be quadratic.
        while self._tail_size - len(self._tail[0]) >= TAIL_CHARACTERS:
            gone = self._tail.popleft()
            self._tail_size -= len(gone)
            self.left_out += len(gone)

    def text(self, spool_name: str | None) -> str:
        """What the notebook shows."""
        head, tail = "".join(self._head), "".join(self._tail)
        if not self.left_out:
            return head + tail
        where = f"; the whole output is in {spool_name}" if spool_name else ""
        return f"{head}\n[… {self.left_out:,} characters left out{where} …]\n{tail}"


class CellOutputs:
    """All outputs of one cell, in order."""

    def __init__(self, spool_path: Path) -> None:
        self._spool_path = spool_path
        self._spool: TextIO | None = None
        self._spooled = False
        self._outputs: list[StreamOutput | dict[str, Any]] = []
        self._characters = 0
        self._rich_bytes = 0
        self._rich_left_out = 0
        self._clear_before_next = False

    def stream(self, name: str, text: str) -> None:
        """Text arrived on stdout or stderr."""
        self._clear_if_asked()
        last = self._outputs[-1] if self._outputs else None
        if not (isinstance(last, StreamOutput) and last.name == name):
            last = StreamOutput(name)
            self._outputs.append(last)
        self._characters += len(text)
        if not self._spooled and self._characters > HEAD_CHARACTERS + TAIL_CHARACTERS:
            self._open_spool()
        if self._spool is not None:
            self._spool.write(text)
        last.append(text)

    def rich(self, kind: str, content: dict[str, Any]) -> None:
        """A display, a result or an error arrived."""
        self._clear_if_asked()
        size = len(json.dumps(content.get("data", {}))) if kind != "error" else 0
        if self._rich_bytes + size > RICH_BYTES:
            self._rich_left_out += 1
            return
        self._rich_bytes += size
        self._outputs.append(_as_output(kind, content))

    def update_display(self, display_id: str, content: dict[str, Any]) -> bool:
        """Replace what ``display_id`` shows; False if this cell shows no such thing."""
        found = False
        for output in self._outputs:
            if isinstance(output, dict) and output.get("__display_id__") == display_id:
                output["data"], output["metadata"] = content["data"], content["metadata"]
                found = True
        return found

    def clear(self, *, wait: bool) -> None:
        """``clear_output``: at once, or before the next output."""
        if wait:
            self._clear_before_next = True
        else:
            self._outputs.clear()
            self._rich_bytes = 0

    def as_json(self) -> list[dict[str, Any]]:
        """The outputs in nbformat's form."""
        spool_name = f"outputs/{self._spool_path.name}" if self._spooled else None
        shown: list[dict[str, Any]] = []
        for output in self._outputs:
            if isinstance(output, StreamOutput):
                text = output.text(spool_name)
                shown.append({"output_type": "stream", "name": output.name, "text": text})
            else:
                shown.append({key: value for key, value in output.items() if key != "__display_id__"})
        if self._rich_left_out:
            text = f"[… {self._rich_left_out:,} more displays left out: over {RICH_BYTES >> 20} MB in one cell …]\n"
            shown.append({"output_type": "stream", "name": "stderr", "text": text})
        return shown

    def close(self) -> None:
        """The cell is over."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _open_spool(self) -> None:
        self._spool_path.parent.mkdir(mode=0o700, exist_ok=True)
        self._spooled = True
        # Replaced, not appended to: an earlier attempt's output belongs to that attempt's notebook.
        self._spool_path.unlink(missing_ok=True)
        self._spool = self._spool_path.open("x", encoding="utf-8", errors="replace", newline="")
        for output in self._outputs:
            if isinstance(output, StreamOutput):
                self._spool.write(output.text(None))

    def _clear_if_asked(self) -> None:
        if self._clear_before_next:
            self._clear_before_next = False
            self._outputs.clear()
            self._rich_bytes = 0


def _as_output(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    from nbformat.v4 import output_from_msg  # slow to import; by now the kernel is starting anyway

    output = dict(output_from_msg({"header": {"msg_type": kind}, "content": content}))  # type: ignore[no-untyped-call]  # nbformat is half typed
    display_id = content.get("transient", {}).get("display_id")
    if display_id:
        output["__display_id__"] = display_id
    return output
