"""The order and the end of what a kernel says, without a kernel."""

from __future__ import annotations

from typing import Any

import pytest

from kernel_bridge.conversation import IDLE_GRACE, JOINED_CHARACTERS, Conversation, described
from kernel_bridge.interface import ClearOutput, ExecutionFinished, KernelEnded, RichOutput, StreamText


def message(kind: str, parent: str | None = "r", **content: Any) -> dict[str, Any]:
    header = {} if parent is None else {"msg_id": parent}
    return {"msg_type": kind, "parent_header": header, "content": content}


IDLE = message("status", execution_state="idle")
REPLY = message("execute_reply", status="ok", execution_count=7)
FINISHED = ExecutionFinished("r", "ok", 7)


@pytest.fixture
def conversation() -> Conversation:
    conversation = Conversation()
    conversation.opened("r")
    return conversation


def everything(conversation: Conversation) -> list[Any]:
    return list(iter(conversation.next, None))


def stream(text: str, name: str = "stdout", parent: str | None = "r") -> dict[str, Any]:
    return message("stream", parent, name=name, text=text)


def test_the_reply_alone_is_not_the_end(conversation):
    conversation.heard_shell(REPLY, 0)
    assert conversation.heard_iopub(stream("late"), 0) == 4
    assert everything(conversation) == [StreamText("r", "stdout", "late")]
    conversation.heard_iopub(IDLE, 0)
    assert everything(conversation) == [FINISHED]
    assert conversation.open_requests == 0


def test_idle_alone_is_not_the_end(conversation):
    conversation.heard_iopub(IDLE, 0)
    assert everything(conversation) == []
    conversation.heard_shell(REPLY, 0)
    assert everything(conversation) == [FINISHED]


def test_the_end_and_idle_of_somebody_else_mean_nothing(conversation):
    conversation.heard_shell(message("execute_reply", "other", status="ok"), 0)
    conversation.heard_iopub(message("status", "other", execution_state="idle"), 0)
    conversation.heard_shell(message("kernel_info_reply"), 0)
    conversation.heard_iopub(IDLE, 0)
    assert everything(conversation) == []
    assert conversation.open_requests == 1


def test_an_idle_that_never_comes_is_waited_for_as_long_as_output_comes(conversation):
    assert conversation.grace_ends() is None
    conversation.heard_shell(REPLY, 10)
    assert conversation.grace_ends() == 10 + IDLE_GRACE
    conversation.heard_iopub(stream("more"), 12)
    assert conversation.grace_ends() == 12 + IDLE_GRACE
    conversation.grace_is_over()
    assert everything(conversation)[-1] == FINISHED
    assert conversation.grace_ends() is None


def test_the_grace_of_one_request_does_not_end_another(conversation):
    conversation.opened("next")
    conversation.heard_shell(REPLY, 0)
    conversation.grace_is_over()
    assert everything(conversation) == [FINISHED]
    assert conversation.open_requests == 1


def test_neighbouring_text_of_one_stream_is_joined(conversation):
    for each in (stream("a"), stream("b"), stream("c", "stderr"), stream("d"), stream("e", parent=None)):
        conversation.heard_iopub(each, 0)
    assert everything(conversation) == [
        StreamText("r", "stdout", "ab"),
        StreamText("r", "stderr", "c"),
        StreamText("r", "stdout", "d"),
        StreamText(None, "stdout", "e"),
    ]


def test_joined_text_has_a_limit_but_a_longer_one_passes_whole(conversation):
    for length in (JOINED_CHARACTERS - 1, 1, 1, JOINED_CHARACTERS * 2):
        conversation.heard_iopub(stream("x" * length), 0)
    lengths = [len(each.text) for each in everything(conversation)]
    assert lengths == [JOINED_CHARACTERS, 1, JOINED_CHARACTERS * 2]


def test_outputs_keep_their_content(conversation):
    conversation.heard_iopub(message("display_data", data={"a": 1}), 0)
    conversation.heard_iopub(message("clear_output", wait=True), 0)
    conversation.add(KernelEnded(0, None))
    assert everything(conversation) == [
        RichOutput("r", "display_data", {"data": {"a": 1}}),
        ClearOutput("r", True),
        KernelEnded(0, None),
    ]


@pytest.mark.parametrize(
    "nonsense",
    [
        stream("x", name="stdin"),
        message("stream", name="stdout", text=None),
        message("status"),
        message("comm_open", data={}),
        message("execute_input", code="1"),
    ],
)
def test_what_is_not_output_yields_nothing(conversation, nonsense):
    assert conversation.heard_iopub(nonsense, 0) == 0
    assert everything(conversation) == []


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ({"status": "abort"}, "aborted"),
        ({"status": "aborted"}, "aborted"),
        ({}, "error"),
        ({"status": 3}, "error"),
    ],
)
def test_odd_replies(conversation, content, status):
    conversation.heard_iopub(IDLE, 0)
    conversation.heard_shell(message("execute_reply", **content, execution_count="x", traceback=5), 0)
    assert everything(conversation) == [ExecutionFinished("r", status)]


def test_a_kernel_that_says_little_of_itself():
    info = described({"language_info": None}, "odd", 5)
    assert (info.kernel_name, info.language, info.pid, info.supports_subshells) == ("odd", "", 5, False)
