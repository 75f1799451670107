"""Makes the kernel give out the same pid twice, in a pid namespace of its own, and signals the first holder."""

from __future__ import annotations

import json
import signal
import subprocess
import time

from dogwatch.actions.kill import end, send_signal
from dogwatch.world.processes import boot_id, identify, life, open_pidfd


def main() -> None:
    boot = boot_id()
    first = subprocess.Popen(["sleep", "600"])
    known = identify(first.pid, boot)
    assert known is not None
    first.kill()
    first.wait()
    while True:
        # Start times are counted in ticks of 10 ms: the second holder must start in a later one.
        time.sleep(0.02)
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
            file.write(str(known.pid - 1))
        second = subprocess.Popen(["sleep", "600"])
        if second.pid == known.pid:
            break
        second.kill()
        second.wait()
    facts = {
        "same_pid": second.pid == known.pid,
        "old_life": life(known, boot),
        "old_pidfd": open_pidfd(known, boot),
        "signalled": send_signal(known, signal.SIGKILL, boot),
    }
    end([known], boot, grace_s=0.1)
    facts["second_lives"] = second.poll() is None
    second.kill()
    second.wait()
    print(json.dumps(facts))


main()
