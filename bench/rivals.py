"""What the ledger is compared with: one-file-a-message mailboxes and Redis, both durable, and both at their best."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from bench.ledger_work import BODY, HOLDER, HOST, KIND, TTL_S, operation_id
from dogwatch.world.clock import SystemClock


class MailboxClient:
    """A folder for each mailbox and a file for each message, as most agent tools have it, but durable.

    A file is written under another name, synced and moved into its folder, and the folder is synced. To claim is to
    move the file on, which only one can do. The folder is listed anew only when the last list is used up.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._clock = SystemClock()
        self._folders: dict[str, int] = {}
        self._names: dict[str, list[str]] = {}
        self._lease = ("", 0)

    def append(self) -> None:
        self._write("events", operation_id(), self._event())
        self._sync("events")

    def fill(self, queue: str, n: int) -> None:
        text = json.dumps(BODY).encode()
        folder = self._folder(f"{queue}/ready")
        for _ in range(n):
            file = os.open(
                f"{time.monotonic_ns():020}-{operation_id()}",
                os.O_WRONLY | os.O_CREAT | os.O_EXCL,
                0o600,
                dir_fd=folder,
            )
            os.write(file, text)
            os.close(file)
        os.sync()

    def take(self, queue: str) -> bool:
        ready, done = self._folder(f"{queue}/ready"), self._folder(f"{queue}/claimed")
        name = self._claim(queue, ready, done)
        if not name:
            return False
        # The event's sync comes between the moves and the folders' syncs, which then find most of it done.
        self._write("events", operation_id(), self._event())
        os.fsync(ready)
        os.fsync(done)
        self._sync("events")
        return True

    def acquire(self, name: str) -> None:
        self._lease = (name, 1)
        self._create("leases", name, self._grant())
        self._sync("leases")

    def renew(self) -> None:
        name, fence = self._lease
        file = os.open(name, os.O_RDONLY, dir_fd=self._folder("leases"))
        current = json.loads(os.read(file, 4096))
        os.close(file)
        assert (current["holder"], current["fence"]) == (HOLDER, fence)
        assert current["expires"] > time.monotonic()
        self._write("leases", name, self._grant())
        self._sync("leases")

    def close(self) -> None:
        for folder in self._folders.values():
            os.close(folder)

    def _claim(self, queue: str, ready: int, done: int) -> str:
        """The first file that nobody else moved, or an empty name."""
        while names := self._names.get(queue) or sorted(os.listdir(ready), reverse=True):
            self._names[queue] = names
            while names:
                name = names.pop()
                try:
                    os.rename(name, name, src_dir_fd=ready, dst_dir_fd=done)
                except FileNotFoundError:
                    continue
                return name
        return ""

    def _write(self, folder: str, name: str, content: Mapping[str, Any]) -> None:
        making = f".{name}.{os.getpid()}"
        self._create(folder, making, content)
        os.rename(making, name, src_dir_fd=self._folder(folder), dst_dir_fd=self._folder(folder))

    def _create(self, folder: str, name: str, content: Mapping[str, Any]) -> None:
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._folder(folder))
        os.write(file, json.dumps(content).encode())
        os.fsync(file)
        os.close(file)

    def _sync(self, folder: str) -> None:
        os.fsync(self._folder(folder))

    def _folder(self, name: str) -> int:
        if name not in self._folders:
            path = os.path.join(self._root, name)
            os.makedirs(path, exist_ok=True)
            self._folders[name] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        return self._folders[name]

    def _event(self) -> Mapping[str, Any]:
        now = self._clock.now()
        at = {"boot": now.boot, "mono": now.mono, "wall": now.wall}
        return {"kind": KIND, "run": "demo", "agent": HOLDER, "at": at, "body": BODY}

    def _grant(self) -> Mapping[str, Any]:
        now = self._clock.now()
        return {
            "holder": HOLDER,
            "fence": self._lease[1],
            "boot": now.boot,
            "renewed": now.mono,
            "expires": now.mono + TTL_S,
        }


# Every script is one atomic step, written to the log and synced before its answer is sent; an operation that comes a
# second time changes nothing, as in the ledger. Syncing is shared by the clients whose commands came together.
#
# The scripts keep what the ledger's contract asks for: events are found by run, by kind and by both; whoever claims
# sees the item before it says what happened, and an item whose claimer is gone is found again; a lease says when it
# ends by the clock of its host and by the server's.
EVENT = """
local function record(op_id, kind, body, boot, mono, wall, run, agent)
  if not redis.call('SET', 'op:' .. op_id, '', 'NX') then return 0 end
  local id = redis.call('XADD', 'events', '*', 'op_id', op_id, 'kind', kind, 'run', run, 'agent', agent, 'boot', boot,
    'mono', mono, 'wall', wall, 'body', body)
  redis.call('RPUSH', 'run:' .. run, id)
  redis.call('RPUSH', 'kind:' .. kind, id)
  redis.call('RPUSH', 'run:' .. run .. ':kind:' .. kind, id)
  return 1
end
"""
APPEND = EVENT + "return record(unpack(ARGV))"
CLAIM = """
local id = redis.call('LPOP', 'ready:' .. KEYS[1])
if not id then return nil end
local fence = redis.call('HINCRBY', 'fences:' .. KEYS[1], id, 1)
redis.call('HSET', 'claimed:' .. KEYS[1], id, cjson.encode({ARGV[1], fence, ARGV[2], ARGV[3]}))
redis.call('ZADD', 'claims:' .. KEYS[1], ARGV[3], id)
return {id, fence, redis.call('HGET', 'bodies:' .. KEYS[1], id)}
"""
ACKNOWLEDGE = (
    EVENT
    + """
local held = cjson.decode(redis.call('HGET', 'claimed:' .. KEYS[1], ARGV[9]))
if held[1] ~= ARGV[8] or held[2] ~= tonumber(ARGV[10]) or held[3] ~= ARGV[4]
  or tonumber(held[4]) <= tonumber(ARGV[5]) then return nil end
redis.call('HSET', 'claimed:' .. KEYS[1], ARGV[9], 'acked')
redis.call('ZREM', 'claims:' .. KEYS[1], ARGV[9])
return record(unpack(ARGV))
"""
)
# Claim and acknowledgement in one step, by somebody who need not see the item for it: only what stands at the end is
# written.
TAKE = (
    EVENT
    + """
local id = redis.call('LPOP', 'ready:' .. KEYS[1])
if not id then return nil end
local fence = redis.call('HINCRBY', 'fences:' .. KEYS[1], id, 1)
redis.call('HSET', 'claimed:' .. KEYS[1], id, 'acked')
record(unpack(ARGV))
return {id, fence, redis.call('HGET', 'bodies:' .. KEYS[1], id)}
"""
)
LEASE = """
local function now()
  local time = redis.call('TIME')
  return time[1] + time[2] / 1000000
end
local function is_held(by)
  if not by[1] then return false end
  if by[1] ~= ARGV[2] then return tonumber(by[4]) > now() end
  return by[2] == ARGV[3] and tonumber(by[3]) > tonumber(ARGV[4])
end
local function write(...)
  redis.call('HSET', 'lease:' .. KEYS[1], 'host', ARGV[2], 'boot', ARGV[3], 'renewed', ARGV[4],
    'expires', ARGV[4] + ARGV[6], 'wall', ARGV[5], 'ends', ARGV[5] + ARGV[6], 'server', now() + ARGV[6], ...)
end
"""
ACQUIRE = (
    LEASE
    + """
if is_held(redis.call('HMGET', 'lease:' .. KEYS[1], 'host', 'boot', 'expires', 'server')) then return nil end
local fence = redis.call('INCR', 'fence:' .. KEYS[1])
write('holder', ARGV[1], 'fence', fence)
return fence
"""
)
RENEW = (
    LEASE
    + """
local held = redis.call('HMGET', 'lease:' .. KEYS[1], 'host', 'boot', 'expires', 'server', 'holder', 'fence')
if held[5] ~= ARGV[1] or held[6] ~= ARGV[7] or not is_held(held) then return nil end
write()
return 1
"""
)


class RedisClient:
    """Redis with its operations as scripts, over a Unix socket.

    It speaks the protocol itself: the `redis` package takes longer for a call than the server does.
    """

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(address)
        self._replies = self._socket.makefile("rb")
        self._clock = SystemClock()
        scripts = (APPEND, CLAIM, ACKNOWLEDGE, TAKE, ACQUIRE, RENEW)
        self._append, self._claim, self._acknowledge, self._take, self._acquire, self._renew = (
            self.call("SCRIPT", "LOAD", text) for text in scripts
        )
        self._lease = ("", 0)

    def append(self) -> None:
        assert self.call("EVALSHA", self._append, 0, *self._event()) == 1

    def fill(self, queue: str, n: int) -> None:
        text = json.dumps(BODY)
        for _ in range(0, n, 100):
            names = [operation_id() for _ in range(100)]
            self.call("HSET", f"bodies:{queue}", *(part for name in names for part in (name, text)))
            self.call("RPUSH", f"ready:{queue}", *names)

    def take(self, queue: str) -> bool:
        now = self._clock.now()
        item = self.call("EVALSHA", self._claim, 1, queue, HOLDER, now.boot, now.mono + TTL_S)
        if item is None:
            return False
        identity, fence, body = item
        json.loads(body)
        assert self.call("EVALSHA", self._acknowledge, 1, queue, *self._event(), identity, fence) == 1
        return True

    def acquire(self, name: str) -> None:
        fence = self.call("EVALSHA", self._acquire, 1, name, *self._term())
        assert isinstance(fence, int)
        self._lease = (name, fence)

    def renew(self) -> None:
        name, fence = self._lease
        assert self.call("EVALSHA", self._renew, 1, name, *self._term(), fence) == 1

    def close(self) -> None:
        self._replies.close()
        self._socket.close()

    def _event(self) -> tuple[object, ...]:
        now = self._clock.now()
        return operation_id(), KIND, json.dumps(BODY), now.boot, now.mono, now.wall, "demo", HOLDER

    def _term(self) -> tuple[object, ...]:
        now = self._clock.now()
        return HOLDER, HOST, now.boot, now.mono, now.wall, TTL_S

    def call(self, *parts: object) -> Any:
        """One command and its answer."""
        texts = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
        self._socket.sendall(
            b"*%d\r\n" % len(texts) + b"".join([b"$%d\r\n%b\r\n" % (len(text), text) for text in texts])
        )
        return self._reply()

    def _reply(self) -> Any:
        line = self._replies.readline()
        mark, rest = line[:1], line[1:-2]
        if mark == b":":
            return int(rest)
        if mark == b"+":
            return rest
        if mark == b"$":
            return None if rest == b"-1" else self._replies.read(int(rest) + 2)[:-2]
        if mark == b"*":
            return None if rest == b"-1" else [self._reply() for _ in range(int(rest))]
        raise RuntimeError(f"Redis answered {line!r}")


class UnseenRedisClient(RedisClient):
    """Takes items without seeing them first, which is less than the ledger's users can do."""

    def take(self, queue: str) -> bool:
        return self.call("EVALSHA", self._take, 1, queue, *self._event()) is not None
