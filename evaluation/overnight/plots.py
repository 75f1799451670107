"""Plots as plain SVG, by hand: a few lines, bars and dots need no library. The same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 860, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 40
CHARACTER = 6.4
"""How wide one is, as a rule."""
COLOURS = {"a": "#c0392b", "b": "#7f8c8d", "c": "#1f6f8b"}
ZONE_COLOURS = {"YELLOW": "#f1c40f", "RED": "#c0392b"}

Point = tuple[float, float]


class Panel:
    """One pair of axes, with its top at `top`."""

    def __init__(self, title: str, x_max: float, y_max: float, x_name: str, y_name: str, top: float = 0.0) -> None:
        self._x_max = x_max or 1.0
        self._y_max = y_max or 1.0
        self._top = top
        self._named_from = float(WIDTH - RIGHT)
        middle = (LEFT + WIDTH - RIGHT) / 2
        floor = top + HEIGHT - BOTTOM
        self.parts = [
            _text(LEFT, top + 20, title, size=14, weight="bold"),
            f'<path d="M{LEFT} {top + TOP}V{floor}H{WIDTH - RIGHT}" fill="none" stroke="#333"/>',
            _text(middle, top + HEIGHT - 8, x_name, anchor="middle"),
            _text(14, top + HEIGHT / 2, y_name, anchor="middle", turned=True),
        ]
        for place in _ticks(self._x_max):
            x = self._x(place)
            self.parts.append(f'<path d="M{x:.1f} {floor}v4" stroke="#333"/>')
            self.parts.append(_text(x, floor + 16, f"{place:g}", anchor="middle"))
        for place in _ticks(self._y_max):
            y = self._y(place)
            self.parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
            self.parts.append(_text(LEFT - 6, y + 4, f"{place:g}", anchor="end"))

    def _x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / self._x_max

    def _y(self, value: float) -> float:
        return self._top + HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(value, self._y_max) / self._y_max

    def line(self, points: Sequence[Point], colour: str, name: str = "") -> None:
        """A line through the points, with its name at the top, left of those that are there."""
        path = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
        if name:
            self._named_from -= 36 + CHARACTER * len(name)
            x = self._named_from
            self.parts.append(f'<path d="M{x:.1f} {self._top + 16}h18" stroke="{colour}" stroke-width="3"/>')
            self.parts.append(_text(x + 24, self._top + 20, name))

    def level(self, value: float, colour: str, name: str) -> None:
        """A line across, as a limit is."""
        y = self._y(value)
        self.parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{colour}" stroke-dasharray="5 4"/>')
        self.parts.append(_text(WIDTH - RIGHT - 4, y - 4, name, anchor="end"))

    def dots(self, points: Sequence[Point], colour: str) -> None:
        """A dot for each."""
        for x, y in points:
            self.parts.append(f'<circle cx="{self._x(x):.1f}" cy="{self._y(y):.1f}" r="3" fill="{colour}"/>')


def drawing(panels: Sequence[Panel]) -> str:
    """The panels below one another, as one file."""
    height = HEIGHT * len(panels)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">'
    body = [part for panel in panels for part in panel.parts]
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *body, "</svg>", ""])


def night_plot(nights: Mapping[str, Sequence[tuple[float, float, int]]], names: Mapping[str, str]) -> str:
    """Available memory in percent and agent processes over the hours, of each policy."""
    hours = max(point[0] for points in nights.values() for point in points)
    memory = Panel("Memory available", hours, 80, "hours", "% of RAM")
    processes = Panel("Agent processes", hours, 60, "hours", "processes", HEIGHT)
    for panel, levels in ((memory, (20, 10)), (processes, (36, 45))):
        for value, (zone, colour) in zip(levels, ZONE_COLOURS.items(), strict=True):
            panel.level(value, colour, zone)
    for policy, points in nights.items():
        memory.line([(hour, 100 * share) for hour, share, _ in points], COLOURS[policy], names[policy])
        processes.line([(hour, number) for hour, _, number in points], COLOURS[policy], names[policy])
    return drawing([memory, processes])


def hours_plot(hours: Mapping[str, Sequence[float]], names: Mapping[str, str], goal: float) -> str:
    """The hours of each seed, ordered by those of (b); below, how many times faster (c) is."""
    pairs = sorted(zip(hours["b"], hours["c"], strict=True))
    over = Panel("Hours until the last of 12 runs was delivered, by seed", len(pairs), 20, "seeds, ordered", "hours")
    for policy, place in (("b", 0), ("c", 1)):
        over.dots([(number + 0.5, pair[place]) for number, pair in enumerate(pairs)], COLOURS[policy])
        over.line([], COLOURS[policy], names[policy])
    ratios = sorted(b / c for b, c in pairs)
    times = Panel("How many times faster (c) is than (b)", len(pairs), 2, "seeds, ordered", "(b) / (c)", HEIGHT)
    times.dots([(number + 0.5, ratio) for number, ratio in enumerate(ratios)], COLOURS["c"])
    times.level(goal, "#333", f"goal {goal:g}")
    return drawing([over, times])


def bars_plot(title: str, rows: Sequence[tuple[str, float, float, float]], goal: float) -> str:
    """A bar from the lowest to the highest value of each row, with a mark at its median."""
    height, most = 46 + 20 * len(rows) + 30, max(2.0, *(row[3] for row in rows))
    wide, left = WIDTH - 330, 290

    def at(value: float) -> float:
        return left + wide * value / most

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(16, 20, title, size=14, weight="bold"),
    ]
    for place in _ticks(most):
        parts.append(f'<path d="M{at(place):.1f} 34V{height - 30}" stroke="#ddd"/>')
        parts.append(_text(at(place), height - 14, f"{place:g}", anchor="middle"))
    parts.append(f'<path d="M{at(goal):.1f} 34V{height - 30}" stroke="#333" stroke-dasharray="5 4"/>')
    for number, (name, least, middle, highest) in enumerate(rows):
        y = 50 + 20 * number
        parts.append(_text(left - 8, y + 4, name, anchor="end"))
        span = max(2.0, at(highest) - at(least))
        parts.append(f'<rect x="{at(least):.1f}" y="{y - 5}" width="{span:.1f}" height="10" fill="#a9cbd6"/>')
        parts.append(f'<path d="M{at(middle):.1f} {y - 7}v14" stroke="{COLOURS["c"]}" stroke-width="3"/>')
    return "\n".join([*parts, "</svg>", ""])


def _ticks(most: float) -> list[float]:
    step = next(one for one in (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if most / one <= 10)
    return [step * number for number in range(int(most / step) + 1)]


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 12,
    anchor: str = "start",
    weight: str = "normal",
    turned: bool = False,
) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    style = f'font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}{turn}>{escape(text)}</text>'
