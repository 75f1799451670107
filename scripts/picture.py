"""Draws docs/images/live-table.svg from a frame of a real demo: .venv/bin/python scripts/picture.py

The demo runs in a tmux server of its own. A frame is taken when the table has something to tell, then the demo is
interrupted and cleans up after itself.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS, ROWS = 104, 28
FRAME_WAIT_S = 120.0
END_WAIT_S = 60.0
POLL_S = 0.2
FAULTS_MENDED = 3
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "live-table.svg"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="dogwatch-picture-") as folder:
        socket = os.path.join(folder, "tmux")
        demo = [sys.executable, "-m", "dogwatch", "demo"]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "NO_COLOR")}
        tmux(socket, "new-session", "-d", "-s", "demo", *size, "--", *demo, environment=environment)
        try:
            frame = wait_for_frame(socket)
        finally:
            interrupt(socket)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(drawn(frame), encoding="utf-8")
    print(f"written: {PICTURE.relative_to(Path.cwd()) if PICTURE.is_relative_to(Path.cwd()) else PICTURE.name}")
    return 0


def tmux(socket: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """What one tmux call prints; empty where the server has ended."""
    argv = ["tmux", "-S", socket, "-f", "/dev/null", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment).stdout


def wait_for_frame(socket: str) -> str:
    """The first frame in which most faults are mended and the agents still work."""
    until = time.monotonic() + FRAME_WAIT_S
    while time.monotonic() < until:
        frame = tmux(socket, "capture-pane", "-e", "-p", "-t", "=demo:")
        if frame.count("✓") >= FAULTS_MENDED and "BUSY" in frame:
            return frame
        time.sleep(POLL_S)
    raise SystemExit("error: the demo showed no frame with mended faults\nhint: run dogwatch demo by hand")


def interrupt(socket: str) -> None:
    """Ends the demo as a person would, and waits until it has cleaned up: its server ends with it."""
    tmux(socket, "send-keys", "-t", "=demo:", "C-c")
    until = time.monotonic() + END_WAIT_S
    while tmux(socket, "list-sessions") and time.monotonic() < until:
        time.sleep(POLL_S)


def drawn(frame: str) -> str:
    """The frame as an SVG that stands alone: the reader's own fonts, nothing fetched from anywhere."""
    lines = frame.rstrip().splitlines()
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, crop=True, highlight=False)
    form = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    svg = console.export_svg(title="make demo", theme=MONOKAI, code_format=form, unique_id="live-table")
    svg = svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace")
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
