"""The counter that the kernel reads."""

from __future__ import annotations

import stat
import sys

import pytest

from kernel_bridge.flow_ack import StreamAcknowledger


def test_the_file_holds_the_sum(tmp_path):
    path = tmp_path / "taken"
    acknowledger = StreamAcknowledger(path)
    assert path.read_bytes() == bytes(8)
    acknowledger.add(3)
    acknowledger.add(2**40)
    assert int.from_bytes(path.read_bytes(), sys.byteorder) == 2**40 + 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    acknowledger.close()
    acknowledger.close()


def test_a_file_that_is_there_already_is_not_taken_over(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(FileExistsError):
        StreamAcknowledger(tmp_path / "taken")
