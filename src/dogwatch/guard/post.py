"""Hands out the messages that wait in an agent's post box, as part of the answer to one of its client's hooks.

The captain puts each message into the box as a file of its own, named by its id. Whoever removes the file has the
message: of several hooks that run at once only one gets it, and a captain that takes it back knows that none did. The
line in the spool, written after the answer, is the receipt.
"""

import os

from dogwatch.guard.full import parsed, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.interfaces import Spool

CHARS_MAX = 9000
"""A client puts longer additions into a file and shows the model only their beginning."""


def carry(spool: "Spool", event: str, payload: bytes, size: int) -> None:
    """Records the event and answers it with the messages that it can carry."""
    call = parsed(payload)
    # A sub-agent must not get its parent's mail. A stop that was held before is not held again,
    # nor one that a person wanted.
    is_over = event == "Stop" and (call.get("stop_hook_active") or call.get("interrupted"))
    if not call or "agent_id" in call or is_over:
        spool.append(event, payload, size)
        return
    taken = _take(spool.box, spool.incarnation)
    if not taken:
        spool.append(event, payload, size)
        return
    words = quoted("\n\n".join(text for _, text in taken))
    if event == "Stop":
        os.write(1, b'{"decision":"block","reason":' + words + b"}")
        spool.append("StopHeld", payload, size)
    else:
        name = quoted(event)
        os.write(1, b'{"hookSpecificOutput":{"hookEventName":' + name + b',"additionalContext":' + words + b"}}")
        spool.append(event, payload, size)
    headers = " ".join(header for header, _ in taken).encode("utf-8", "surrogatepass")
    spool.append("Delivered", headers, len(headers))


def _take(box: bytes, incarnation: str) -> list[tuple[str, str]]:
    """The oldest messages that fit into one answer, each with its header; they are no longer in the box."""
    taken: list[tuple[str, str]] = []
    room = CHARS_MAX
    for name in sorted(os.listdir(box)):
        if not name.endswith(f".{incarnation}".encode()):
            continue
        path = box + b"/" + name
        try:
            with open(path, encoding="utf-8", errors="surrogatepass", newline="") as file:
                text = file.read()
            if taken and len(text) > room:
                break
            os.unlink(path)
        except (OSError, ValueError):
            continue  # somebody else was quicker, or it is no message
        room -= len(text)
        taken.append((text.partition("\n")[0], text))
    return taken
