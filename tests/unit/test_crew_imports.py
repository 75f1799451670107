"""Crew members start fast: nothing of what reads pipeline files is loaded into them."""

from __future__ import annotations

import subprocess
import sys

MEMBERS = ("captain.captain", "dispatcher.dispatcher", "watchdog.watchdog")
CREW = "import dogwatch.crew.main, " + ", ".join(f"dogwatch.crew.{name}" for name in MEMBERS)


def test_no_crew_member_loads_what_reads_pipeline_files() -> None:
    code = f"import sys; {CREW}; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "dogwatch" in loaded
    assert not loaded & {"pydantic", "yaml", "rich", "psycopg"}
