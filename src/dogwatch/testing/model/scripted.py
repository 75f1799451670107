"""The scripted model as a whole: it serves within a `with`, and has noted every request."""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from dogwatch.errors import UsageError
from dogwatch.testing.model import scenario as scenarios
from dogwatch.testing.model.record import Request
from dogwatch.testing.model.scenario import Scenario
from dogwatch.testing.model.server import ADDRESS, Server

KEPT_MAX = 1000
POLL_S = 0.05


class ScriptedModel:
    """The model while it serves: `with ScriptedModel(scenario) as model:` and point a client to `model.url`.

    The scenario may be given in plain values, as a file would have them.
    """

    def __init__(
        self,
        scenario: Scenario | Mapping[str, Any] | None = None,
        *,
        port: int = 0,
        log: str = "",
        keep: int = KEPT_MAX,
    ) -> None:
        self.scenario = scenario if isinstance(scenario, Scenario) else scenarios.parse(dict(scenario or {}))
        self._port = port
        self._log_path = log
        self._log = -1
        self._kept: deque[Request] = deque(maxlen=keep)
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where it serves, without a slash at the end."""
        return f"http://{ADDRESS}:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[Request]:
        """All requests so far (the last thousand of them), in the order in which they were answered."""
        with self._lock:
            return list(self._kept)

    def __enter__(self) -> Self:
        self._server = _listening(self, self._port)
        try:
            if self._log_path:
                self._log = os.open(self._log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._server.server_close()
            raise UsageError(f"the log cannot be written: {error}", hint="name a file with --log") from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,), name="scripted-model")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.hang_up()
        self._server.server_close()
        if self._log >= 0:
            os.close(self._log)

    def note(self, request: Request) -> None:
        """Keeps the request and logs it, before it is answered: who has an answer finds the request noted."""
        with self._lock:
            self._kept.append(request)
            if self._log >= 0:
                os.write(self._log, request.line().encode() + b"\n")


def _listening(model: ScriptedModel, port: int) -> Server:
    try:
        return Server(model.scenario, model.note, port)
    except OSError as error:
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        raise UsageError(f"port {port} {reason}", hint="--port 0 takes any free one") from error
