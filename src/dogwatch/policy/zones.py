"""The one table of memory: which reading makes the zone YELLOW, which RED, and how it is left again.

GREEN launches, YELLOW pauses launches, RED also reclaims one idle worker a cycle. Any one sensor sets the zone at once.
It is left with a margin and after a while, so that a reading at the line does not make it flap.
"""

from __future__ import annotations

from collections.abc import Callable

from dogwatch.model.memory import CALM_S, GB, ZONES, HostRecord, Readings, Zone
from dogwatch.model.moment import Moment
from dogwatch.values import dataclass

REFERENCE_BYTES = 223 * GB
REFERENCE_AGENT_BYTES = 2.1 * GB
"""The machine and the size of an agent that the table's processes are for."""
SMALLEST_SCALE = 0.1
"""No machine is so small that three agents are too many by their number alone."""


@dataclass(frozen=True, slots=True)
class Sensor:
    """One row. `falls` for what is bad when it is low; `margin` is how far back it must be before it counts as better;
    `scale` is by what the two lines are multiplied on this machine."""

    name: str
    what: str
    yellow: float
    red: float
    falls: bool
    margin: float
    read: Callable[[Readings], float | None]
    show: Callable[[float], str]
    scale: Callable[[Readings, int], float] = lambda readings, agent_bytes: 1.0

    def lines(self, readings: Readings, agent_bytes: int) -> tuple[float, float]:
        """Its two lines on this machine."""
        factor = self.scale(readings, agent_bytes)
        return self.yellow * factor, self.red * factor


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


def _percent(value: float) -> str:
    return f"{value:.0%}"


def _process_scale(readings: Readings, agent_bytes: int) -> float:
    """How many times as many agents this machine holds as the one that the table is for."""
    if not readings.size_bytes:
        return 1.0
    factor = readings.size_bytes / REFERENCE_BYTES * REFERENCE_AGENT_BYTES / (agent_bytes or REFERENCE_AGENT_BYTES)
    return max(factor, SMALLEST_SCALE)


TABLE = (
    Sensor(
        "available",
        "memory available",
        0.20,
        0.10,
        True,
        0.03,
        lambda r: _share(r.left_bytes, r.size_bytes),
        _percent,
    ),
    Sensor(
        "processes",
        "agent processes",
        36,
        45,
        False,
        0.05,
        lambda r: float(r.processes),
        lambda value: f"{int(value)}",
        _process_scale,
    ),
    Sensor(
        "swap",
        "swap free",
        0.40,
        0.25,
        True,
        0.05,
        lambda r: _share(r.swap_free_bytes, r.swap_total_bytes),
        _percent,
    ),
    Sensor(
        "largest",
        "the largest process",
        8 * GB,
        12 * GB,
        False,
        0.10,
        lambda r: float(r.largest.rss_bytes) if r.largest is not None else None,
        lambda value: f"{value / GB:.1f} GB",
    ),
    Sensor(
        "pressure",
        "time in which somebody waited for memory",
        20.0,
        40.0,
        False,
        0.25,
        lambda r: r.pressure_some_percent,
        lambda value: f"{value:.0f}%",
    ),
    Sensor(
        "full pressure",
        "time in which all waited for memory",
        5.0,
        15.0,
        False,
        0.25,
        lambda r: r.pressure_full_percent,
        lambda value: f"{value:.0f}%",
    ),
)


OF_THE_MACHINE = frozenset({"available", "swap", "pressure", "full pressure"})
"""The sensors that tell of all memory, and not of agents alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one sensor makes of it. `calm` is the zone that it would allow to go back to."""

    sensor: str
    zone: Zone
    calm: Zone
    why: str


def judge(readings: Readings, agent_bytes: int = 0) -> tuple[Reading, ...]:
    """Every sensor that this machine has."""
    found = []
    for sensor in TABLE:
        value = sensor.read(readings)
        if value is None:
            continue
        yellow, red = sensor.lines(readings, agent_bytes)
        zone = _zone(sensor, value, yellow, red)
        words = f"{sensor.what}: {sensor.show(value)}"
        if zone != "GREEN":
            line = red if zone == "RED" else yellow
            words += f", {zone} {'below' if sensor.falls else 'above'} {sensor.show(line)}"
        found.append(
            Reading(
                sensor=sensor.name,
                zone=zone,
                calm=_zone(sensor, value, _back(sensor, yellow), _back(sensor, red)),
                why=words,
            )
        )
    return tuple(found)


def _zone(sensor: Sensor, value: float, yellow: float, red: float) -> Zone:
    def beyond(line: float) -> bool:
        return value < line if sensor.falls else value > line

    return "RED" if beyond(red) else "YELLOW" if beyond(yellow) else "GREEN"


def _back(sensor: Sensor, line: float) -> float:
    """The line that must be passed on the way back; shares by so many points, everything else by a share of it."""
    return line + sensor.margin if sensor.falls else line * (1 - sensor.margin)


def worst(found: tuple[Reading, ...]) -> Reading | None:
    """The sensor that sets the zone; the first of the table among equals."""
    return max(found, key=lambda one: ZONES.index(one.zone), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneState:
    """The zone, the sensor that has set it and why; `calm_since` is since when all sensors would allow a better one."""

    zone: Zone = "GREEN"
    sensor: str = ""
    why: str = ""
    calm_since: Moment | None = None


def next_state(
    before: ZoneState, readings: Readings, agent_bytes: int, now: Moment, calm_s: float = CALM_S
) -> ZoneState:
    """The zone after a look. Worse at once; better when all sensors have been beyond their margins for a while. A look
    that does not tell how much memory is left makes no shortage of it better."""
    found = judge(readings, agent_bytes)
    top = worst(found)
    if top is None:
        return ZoneState(zone=before.zone, sensor=before.sensor, why=before.why)
    if ZONES.index(top.zone) >= ZONES.index(before.zone):
        sensor, why = (top.sensor, top.why) if top.zone != "GREEN" else ("", "")
        return ZoneState(zone=top.zone, sensor=sensor, why=why)
    calm = max((one.calm for one in found), key=ZONES.index)
    is_blind = before.sensor in OF_THE_MACHINE and all(one.sensor != TABLE[0].name for one in found)
    if is_blind or ZONES.index(calm) >= ZONES.index(before.zone):
        return ZoneState(zone=before.zone, sensor=before.sensor, why=before.why)
    since = before.calm_since or now
    if now.since(since) < calm_s:
        return ZoneState(zone=before.zone, sensor=before.sensor, why=before.why, calm_since=since)
    if calm == "GREEN":
        return ZoneState()
    cause = next(one for one in found if one.calm == calm)
    return ZoneState(zone=calm, sensor=cause.sensor, why=cause.why)


def room_bytes(host: HostRecord) -> float:
    """How much can still be taken before the YELLOW line of available memory is reached; infinite without a sensor."""
    readings = host.readings
    if readings.left_bytes is None or not readings.size_bytes:
        return float("inf")
    return max(0.0, readings.left_bytes - TABLE[0].yellow * readings.size_bytes)


def processes_max(host: HostRecord, expected_bytes: float = 0.0, before: Zone = "YELLOW") -> int:
    """How many agent processes there may be before that zone; `expected_bytes` is how large one is thought to be, where
    nothing is known of this machine yet."""
    yellow, red = TABLE[1].lines(host.readings, host.agent_bytes or int(expected_bytes))
    return int(red if before == "RED" else yellow)
