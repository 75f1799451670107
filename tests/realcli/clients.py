"""Real agent CLIs for tests: from npm at pinned versions, with a clean environment and a home of their own.

They talk to the scripted model on loopback with a dummy key; nothing of the user's home or login is read.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dogwatch.harness import harness

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = Path(os.environ.get("DOGWATCH_TEST_CLIENTS") or ROOT / ".clients")
"""Where clients are installed; they stay there for the next test run."""
PACKAGES: Mapping[str, tuple[str, str]] = {"claude": ("@anthropic-ai/claude-code", harness("claude").version)}
KEY = "sk-ant-scripted-model-no-real-key-0000"


def program(client: str) -> str:
    """The client's program, installed first where it is not there yet."""
    package, version = PACKAGES[client]
    folder = CLIENTS / f"{client}-{version}"
    path = folder / "node_modules/.bin" / client
    CLIENTS.mkdir(exist_ok=True)
    with open(CLIENTS / f"{client}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            npm = shutil.which("npm")
            assert npm is not None, "missing: npm; hint: apt-get install npm"
            shutil.rmtree(folder, ignore_errors=True)
            words = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--no-package-lock"]
            done = subprocess.run([*words, f"{package}@{version}"], capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, f"npm install {package}@{version}: {done.stderr[-2000:]}"
    return str(path)


def claude_home(home: Path, project: Path) -> None:
    """A home in which the first questions of Claude Code are answered, and the project is trusted."""
    home.mkdir(parents=True, exist_ok=True)
    answers: dict[str, Any] = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "hasSeenAutoDefaultNudge": True,
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {os.path.realpath(project): {"hasTrustDialogAccepted": True}},
    }
    (home / ".claude.json").write_text(json.dumps(answers))


def claude_environment(home: Path, url: str) -> dict[str, str]:
    """The variables under which Claude Code talks to nobody but the scripted model."""
    scratch = home / "tmp"
    scratch.mkdir(exist_ok=True)
    return {
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
        "CLAUDE_CODE_TMPDIR": str(scratch),
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }
