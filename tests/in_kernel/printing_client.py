"""A client of its own process, so that its memory can be measured: prints a JSON line about one passage.

    python printing_client.py STYLE MEGABYTES [SECONDS PER CHARACTER]

Starts a kernel, installs flow control in it, makes it print in the given style with numbered marker lines in
between, keeps only the markers, and samples the resident memory of both processes meanwhile. It takes its
time over every text, as a supervisor does that looks at it and writes it down: a kernel that is not held back
gets far ahead.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import psutil

from kernel_bridge.interface import ExecutionFinished, StreamText
from kernel_bridge.jupyter_session import JupyterSession

MARKER = re.compile(r"\[STEP:n=(\d+)\]\n")

PRELUDE = """
import subprocess, sys
from gyoshu_ckpt.in_kernel import flow
assert flow.install()
LINE = "x" * 199
def mark(number):
    print(f"[STEP:n={number}]")
"""

STYLES = {
    "lines": """
for number in range(megabytes):
    for _ in range(5_000):
        print(LINE)
    mark(number)
""",
    "stderr": """
for number in range(megabytes):
    for _ in range(500):
        print("y" * 999, file=sys.stderr)
        print("z" * 999)
    mark(number)
""",
    "flushed": """
for number in range(megabytes):
    for _ in range(100):
        print(LINE, flush=True)
    print(f"[STEP:n={number}]", flush=True)
""",
    "giant": """
mark(0)
print(GIANT)
mark(1)
""",
    "wide": """
for number in range(megabytes // 4):
    print("\\N{GRINNING FACE}" * 999_999)
    mark(number)
""",
    "child": """
program = f'''
import sys
line = "x" * 199 + chr(10)
for number in range({megabytes}):
    sys.stdout.write(line * 5_000)
    sys.stdout.write("[STEP:n=%d]" % number + chr(10))
'''
subprocess.run([sys.executable, "-c", program], check=True)
""",
}


def main(style: str, megabytes: int, slowness: float = 10e-9) -> None:
    with JupyterSession("python3", cwd=Path.cwd()) as session:
        kernel, client = psutil.Process(session.start().pid), psutil.Process()
        # The user's own giant string is no part of the growth.
        giant = "GIANT = 'x' * (megabytes * 1_000_000)" if style == "giant" else ""
        consume(session, f"{PRELUDE}\nmegabytes = {megabytes}\n{giant}\nmark(0)")
        before = kernel.memory_info().rss, client.memory_info().rss
        peaks = list(before)

        def sample() -> None:
            peaks[:] = (
                max(peaks[0], kernel.memory_info().rss),
                max(peaks[1], client.memory_info().rss),
            )

        started = time.monotonic()
        markers, characters = consume(session, STYLES[style], sample, slowness)
        seconds = time.monotonic() - started
    growth = [(peak - start) / 1e6 for peak, start in zip(peaks, before, strict=True)]
    result = {
        "markers": markers,
        "characters": characters,
        "kernel_growth": growth[0],
        "client_growth": growth[1],
        "seconds": seconds,
    }
    print(json.dumps(result))


def consume(session, code, sample=lambda: None, seconds_per_character=0.0):
    markers, characters, rest = [], 0, ""
    sampled = 0.0
    request = session.execute(code)
    while True:
        message = session.receive(30)
        if time.monotonic() - sampled > 0.01:
            sample()
            sampled = time.monotonic()
        match message:
            case StreamText(name="stdout", text=text):
                time.sleep(len(text) * seconds_per_character)
                characters += len(text)
                text = rest + text
                markers += [int(each) for each in MARKER.findall(text)]
                rest = text[max(text.rfind("\n") + 1, len(text) - 100) :]
            case StreamText(text=text):
                characters += len(text)
            case ExecutionFinished(request=finished, status="ok") if finished == request:
                return markers, characters
            case None | ExecutionFinished():
                raise SystemExit(f"the kernel said {message}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:]))
