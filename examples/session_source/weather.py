"""What the relay box left behind on the night of the story: its log, its spool and the gauges' lines.

All of it is made up from a fixed seed: a link that was down for a day, and a storm surge with a power cut in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

DAY = datetime(2024, 11, 14, tzinfo=UTC)
LINK_DOWN = datetime(2024, 11, 13, 5, 2, tzinfo=UTC)
LINK_BACK = datetime(2024, 11, 14, 4, 42, tzinfo=UTC)
ERRORS = ("[Errno 110] Connection timed out", "[Errno 113] No route to host", "<urlopen error timed out>")
KEL_DARK = range(122, 164)
"""Minutes of the day without power at KEL, while the surge came in."""


def relay_log() -> str:
    """Two days of the relay's log: spooling three times an hour, flushing every ten minutes."""
    rng = Random(1411)  # noqa: S311 (made-up weather, no secret)
    return "\n".join(f"{at:%Y-%m-%dT%H:%M:%SZ} {line}" for at, line in _events(rng)) + "\n"


def _events(rng: Random) -> Iterator[tuple[datetime, str]]:
    waiting: list[int] = []
    number = 4_639
    at = datetime(2024, 11, 13, 0, 0, 3, tzinfo=UTC)
    while at < DAY + timedelta(hours=12):
        if at.minute % 20 == 0:
            number += 1
            waiting.append(number)
            yield at, f"INFO tidepost.relay spooled {number:08d}.batch with 60 readings"
        yield from _flush(rng, at + timedelta(seconds=rng.randint(5, 20)), waiting)
        at += timedelta(minutes=10)


def _flush(rng: Random, at: datetime, waiting: list[int]) -> Iterator[tuple[datetime, str]]:
    sent: list[int] = []
    # When the link came back it held for some dozen batches at a time, until the backlog was through.
    holds = 23 if at < LINK_BACK + timedelta(minutes=22) else 10_000
    for number in waiting:
        down = LINK_DOWN <= at < LINK_BACK or len(sent) >= holds
        if down:
            for pause in (2, 4, 8, 16, 0):
                yield at, f"WARNING tidepost.uplink send {number:08d}.batch failed: {rng.choice(ERRORS)}"
                at += timedelta(seconds=20 + pause)
            yield at, f"ERROR tidepost.cli gave up on {number:08d}.batch after 5 tries (last status 0)"
            return
        yield at, f"INFO tidepost.uplink sent {number:08d}.batch ({4_300 + number * 37 % 121} bytes)"
        sent.append(number)
        at += timedelta(seconds=2)
    waiting.clear()


def gauge_lines() -> str:
    """The fourteenth of November, one line a minute and station."""
    rng = Random(1412)  # noqa: S311 (made-up weather, no secret)
    lines = []
    for minute in range(1_440):
        stamp = f"{DAY + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%SZ}"
        tide = 1.1 * math.sin(minute / 745 * 2 * math.pi)
        surge = 1.25 / (1 + math.exp(-(minute - 150) / 12))
        if minute not in KEL_DARK:
            lines.append(f"KEL|{stamp}|{4.8 + tide * 0.1 + surge + rng.gauss(0, 0.01):.3f}|m")
        if not 600 <= minute < 607 and not 911 <= minute < 925:
            lines.append(f"HUS|{stamp}|{(5.1 + tide + surge * 0.5 + rng.gauss(0, 0.01)) * 100:.1f}|cm")
        lines.append(f"WIL|{stamp}|{4.9 + tide + surge * 0.6 + rng.gauss(0, 0.01):.3f}|m")
    return "\n".join(lines) + "\n"


def leave_behind(root: Path) -> None:
    (root / "logs").mkdir()
    (root / "logs" / "relay-2024-11-14.log").write_text(relay_log())
    gauge = root / "var" / "gauge"
    gauge.mkdir(parents=True)
    (gauge / "2024-11-14.txt").write_text(gauge_lines())
