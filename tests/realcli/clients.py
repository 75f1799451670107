"""Real agent CLIs for tests: from npm at pinned versions, with a clean environment and a home of their own.

They talk to the scripted model on loopback with a dummy key; nothing of the user's home or login is read.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from dogwatch.harness import harness

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("DOGWATCH_TEST_CLIENTS") or ROOT / ".clients")
"""Where clients are installed; they stay there for the next test run."""
CLIENTS = ("claude", "codex", "opencode", "gemini")
"""All that the contract is tested on."""


def program(client: str) -> str:
    """The client's program, installed first where it is not there yet."""
    package, version = harness(client).package, harness(client).version
    folder = FOLDER / f"{client}-{version}"
    path = folder / "node_modules/.bin" / client
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / f"{client}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            npm = shutil.which("npm")
            assert npm is not None, "missing: npm; hint: apt-get install npm"
            shutil.rmtree(folder, ignore_errors=True)
            words = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--no-package-lock"]
            done = subprocess.run([*words, f"{package}@{version}"], capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, f"npm install {package}@{version}: {done.stderr[-2000:]}"
    return str(path)


def rehearsal(client: str, home: Path, project: Path, url: str) -> dict[str, str]:
    """Makes the client's home, with its first questions answered; returns the variables it needs."""
    found = harness(client).rehearsal(str(home), str(project), url)
    home.mkdir(parents=True, exist_ok=True)
    for path, text in found.files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    scratch = home / "tmp"
    scratch.mkdir(exist_ok=True)
    return {**found.environment, "TMPDIR": str(scratch)}
