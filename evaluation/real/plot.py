"""How much memory was left over time, one line for each start, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT = 860, 340
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 44, 44
COLOURS = ("#c0392b", "#1f6fb2")
BANDS = ((0.0, 0.10, "#f6d5d1", "RED below 10 %"), (0.10, 0.20, "#fbefc4", "YELLOW below 20 %"))
TICKS = (1, 2, 5, 10)
TICKS_MAX = 12
FONT = 'font-family="sans-serif" font-size="12"'


def draw(title: str, found: Sequence[Mapping[str, Any]], limit_bytes: int) -> str:
    """The whole picture."""
    minutes: float = max(one["left"][-1][0] for one in found) / 60
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(at_min: float) -> float:
        return LEFT + at_min / minutes * inner_width

    def y(share: float) -> float:
        return TOP + (1 - share) * inner_height

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="18" font-size="14" fill="#222222">{escape(title)}</text>',
    ]
    for low, high, colour, words in BANDS:
        height = y(low) - y(high)
        parts.append(
            f'<rect x="{LEFT}" y="{y(high):.1f}" width="{inner_width}" height="{height:.1f}" fill="{colour}"/>'
        )
        parts.append(
            f'<text x="{WIDTH - RIGHT - 4}" y="{y(low) - 7:.1f}" text-anchor="end" fill="#777777">{words}</text>'
        )
    for percent in (0, 20, 40, 60, 80, 100):
        at = y(percent / 100)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e3e3e3"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end" fill="#555555">{percent} %</text>')
    step = next((one for one in TICKS if minutes / one <= TICKS_MAX), TICKS[-1])
    for minute in range(0, int(minutes) + 1, step):
        parts.append(
            f'<text x="{x(minute):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#555555">{minute}</text>'
        )
    parts.append(
        f'<text x="{LEFT + inner_width / 2}" y="{HEIGHT - 8}" text-anchor="middle" fill="#555555">minutes</text>'
    )
    for number, (one, colour) in enumerate(zip(found, COLOURS, strict=True)):
        points = " ".join(f"{x(at_s / 60):.1f},{y(left / limit_bytes):.1f}" for at_s, left in one["left"])
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        words = f"{one['name']}: {one['delivered']} of {one['of']} delivered, {one['kills']} processes killed"
        at = LEFT + number * inner_width / 2
        parts.append(f'<rect x="{at}" y="27" width="14" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{at + 20}" y="34" fill="#222222">{escape(words)}</text>')
    return "\n".join([*parts, "</svg>", ""])
