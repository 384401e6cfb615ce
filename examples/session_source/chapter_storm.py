"""The second day: a storm surge that looks like an error, a way that led nowhere, a branch to merge."""

# ruff: noqa: E501 (what is said and written is as long as it is)

from __future__ import annotations

from session_source.scribe import Scribe
from session_source.workbench import patch, read, search, sh, write

FLAGS_BY_STATION = (
    "python - <<'END'\n"
    "from collections import Counter\n"
    "from tidepost.quality import QualityCheck\n"
    "from tidepost.readings import parse_line\n"
    "from tidepost.stations import STATIONS\n"
    "quality, flags, total = QualityCheck(STATIONS), Counter(), Counter()\n"
    "for line in open('var/gauge/2024-11-14.txt'):\n"
    "    reading = quality.check(parse_line(line))\n"
    "    total[reading.station] += 1\n"
    "    flags.update((reading.station, flag) for flag in reading.flags)\n"
    "print(dict(total))\n"
    "print(dict(flags))\n"
    "END"
)


def tell(s: Scribe) -> None:
    storm(s)
    dead_end(s)
    elapsed(s)
    why_not_a_cap(s)
    merge(s)
    backwards(s)


def storm(s: Scribe) -> None:
    s.user(
        "Morning. The office complains again: for the 14th almost the whole day of KEL carries the flag `spike`. There was a "
        "storm surge that night, but the levels are right, the harbour master checked them by eye. The raw lines are in "
        "var/gauge/2024-11-14.txt. What is going on?"
    )
    s.do("First the numbers.", sh(FLAGS_BY_STATION), read("tidepost/quality.py"))
    s.saw("('KEL', 'spike'): 1276")
    s.do(
        "1,276 of 1,398 readings of KEL are flagged, and none of the other stations. So it starts somewhere and never ends. "
        "Where is the first one?",
        sh("grep -n '^KEL|2024-11-14T0[12]:' var/gauge/2024-11-14.txt | sed -n '55,85p'"),
        sh("grep '^KEL|2024-11-14T02' var/gauge/2024-11-14.txt"),
    )
    s.saw("T02:01:00Z|", "T02:44:00Z|")
    s.do(
        "KEL is silent from 02:02 to 02:43. Let me see the relay's own words for that stretch, and what a run over the whole "
        "file says.",
        sh("grep -n 'T02:[0-5]' logs/relay-2024-11-14.log | grep '^[0-9]*:2024-11-14' | head -n 40"),
        sh("python -m tidepost --config config/tidepost.toml run var/gauge/2024-11-14.txt"),
    )
    s.saw("spooled")
    s.say(
        "It is a bug in `tidepost/quality.py`, in two lines that are each reasonable alone:\n\n"
        "- KEL has a gap of 43 minutes (no line from 02:02 to 02:43; a power cut, I suppose). In that time the surge lifted the "
        "water from 4.999 m to 5.872 m. The first reading after the gap is 0.873 m above the last one, more than `SPIKE_M` = 0.5, "
        "so it is flagged. That alone would be one wrong flag.\n"
        "- But a flagged reading does not become `previous`. So every later reading is compared with the 4.999 m of 02:01, for "
        "the rest of the day: 1,276 flags.\n\n"
        "Before I change it: do you want a spike to be judged differently after a gap, or should a flagged reading become the "
        "new reference after a while?"
    )


def dead_end(s: Scribe) -> None:
    s.user(
        "You decide, but a gauge that is knocked by a boat gives three or four wrong values in a row, and those must all be "
        "flagged, and the good one after them must not."
    )
    s.do(
        "I will try a running median of the last five readings: single outliers do not move it, and after a real step it "
        "follows by itself. First the boat as a test.",
        patch(
            "tests/test_quality.py",
            "def test_stations_do_not_disturb_each_other():",
            "def test_a_knocked_gauge_is_flagged_until_it_is_right_again():\n"
            "    knocked = flags(levels(5.0, 5.01, 5.9, 5.9, 5.9, 5.9, 5.02))\n"
            '    assert knocked == [(), (), ("spike",), ("spike",), ("spike",), ("spike",), ()]\n\n\n'
            "def test_a_surge_during_a_power_cut_is_no_spike():\n"
            '    before, after = levels(5.08), [Reading("KEL", START + timedelta(minutes=43 + n), 6.0) for n in range(3)]\n'
            "    assert flags(before + after) == [(), (), (), ()]\n\n\n"
            "def test_stations_do_not_disturb_each_other():",
        ),
        sh("python -m pytest tests/test_quality.py", fails=True),
    )
    s.saw("1 failed, 5 passed")
    s.do(
        "The boat already works, the surge does not. Now the median.",
        write(
            "tidepost/quality.py",
            '"""Flags on readings that the office should look at twice. Nothing is ever dropped here."""\n\n'
            "from __future__ import annotations\n\n"
            "from collections import defaultdict, deque\n"
            "from statistics import median\n\n"
            "from tidepost.readings import Reading\n"
            "from tidepost.stations import Station\n\n"
            "SPIKE_M = 0.5\n"
            "WINDOW = 5\n\n\n"
            "class QualityCheck:\n"
            '    """Compares each reading with the limits of its station and with the median of the last ones."""\n\n'
            "    def __init__(self, stations: dict[str, Station]) -> None:\n"
            "        self.stations = stations\n"
            "        self.recent: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=WINDOW))\n\n"
            "    def check(self, reading: Reading) -> Reading:\n"
            "        station = self.stations[reading.station]\n"
            "        recent = self.recent[reading.station]\n"
            "        flags = []\n"
            "        if not station.lowest_m <= reading.level_m <= station.highest_m:\n"
            '            flags.append("range")\n'
            "        if recent and abs(reading.level_m - median(recent)) > SPIKE_M:\n"
            '            flags.append("spike")\n'
            "        recent.append(reading.level_m)\n"
            "        return reading.flagged(*flags)\n",
        ),
        sh("python -m pytest tests/test_quality.py", fails=True),
    )
    s.saw("2 failed, 4 passed")
    s.do(
        "Worse: now the boat fails too. As soon as there are as many wrong values in the window as good ones, the wrong level "
        "pulls the median over, and then the first good reading is flagged instead. Does a longer window help?",
        sh(
            "python - <<'END'\n"
            "import tidepost.quality as quality\n"
            "from datetime import UTC, datetime, timedelta\n"
            "from tidepost.readings import Reading, parse_line\n"
            "from tidepost.stations import STATIONS\n"
            "start = datetime(2024, 11, 1, tzinfo=UTC)\n"
            "boat = [5.0, 5.01, 5.9, 5.9, 5.9, 5.9, 5.02]\n"
            "for window in (5, 9, 15, 31, 61):\n"
            "    quality.WINDOW = window\n"
            "    check = quality.QualityCheck(STATIONS)\n"
            "    seen = [bool(check.check(Reading('KEL', start + timedelta(minutes=n), v)).flags) for n, v in enumerate(boat)]\n"
            "    check = quality.QualityCheck(STATIONS)\n"
            "    day = [check.check(parse_line(line)) for line in open('var/gauge/2024-11-14.txt')]\n"
            "    storm = sum('spike' in r.flags for r in day if r.station == 'KEL')\n"
            "    print(f'window {window:>2}: boat {seen}, false flags in the storm {storm}')\n"
            "END"
        ),
    )
    s.saw("window  5", "window 61")
    s.do(
        "No length saves the boat when it comes early, with few good readings before it, and the longer the window, the longer "
        "the storm is flagged: 3 to 31 times. I give this way up and put the file back as it was in git.",
        sh("git checkout tidepost/quality.py && git status --short"),
    )
    s.saw("M tests/test_quality.py")


def elapsed(s: Scribe) -> None:
    s.do(
        "What tells a boat from a surge is *time*: one minute after the last good reading the water cannot be 0.9 m higher, "
        "43 minutes after it can. So the limit grows with the time since the last good reading. How fast does the water rise "
        "at most in our own data?",
        sh(
            "python - <<'END'\n"
            "from tidepost.readings import parse_line\n"
            "last, fastest = {}, {}\n"
            "for line in open('var/gauge/2024-11-14.txt'):\n"
            "    r = parse_line(line)\n"
            "    if r.station in last:\n"
            "        before = last[r.station]\n"
            "        minutes = (r.at - before.at).total_seconds() / 60\n"
            "        if minutes >= 10:\n"
            "            print(r.station, before.at.time(), r.at.time(), f'{abs(r.level_m - before.level_m):.3f} m in {minutes:.0f} min')\n"
            "    fastest.setdefault(r.station, []).append((r.at, r.level_m))\n"
            "    last[r.station] = r\n"
            "for code, points in sorted(fastest.items()):\n"
            "    rates = [abs(b[1] - a[1]) / 15 for a, b in zip(points, points[15:]) if (b[0] - a[0]).total_seconds() == 900]\n"
            "    print(code, f'fastest over 15 min: {max(rates):.4f} m/min')\n"
            "END"
        ),
    )
    s.saw("KEL 02:01:00 02:44:00 0.873 m in 43 min")
    s.do(
        "The storm itself stays under 0.03 m a minute. Decision: limit = 0.5 m for neighbouring minutes, plus 0.03 m for every "
        "further minute. After 43 minutes that is 1.76 m. The reference stays the last *good* reading, so the boat is judged as "
        "before, and a lasting step is accepted once enough time has passed instead of never.",
        patch(
            "tidepost/quality.py",
            "        if before is not None and abs(reading.level_m - before.level_m) > SPIKE_M:\n",
            "        if before is not None and abs(reading.level_m - before.level_m) > _limit(before, reading):\n",
        ),
        patch(
            "tidepost/quality.py",
            "SPIKE_M = 0.5\n",
            "SPIKE_M = 0.5\n"
            "# The surge of 14 November 2024 rose by less than this in any minute.\n"
            "RISE_M_PER_MINUTE = 0.03\n",
        ),
        patch(
            "tidepost/quality.py",
            "        return reading.flagged(*flags)\n",
            "        return reading.flagged(*flags)\n\n\n"
            "def _limit(before: Reading, reading: Reading) -> float:\n"
            '    """How far the water can have moved since the last good reading."""\n'
            "    minutes = (reading.at - before.at).total_seconds() / 60\n"
            "    return SPIKE_M + RISE_M_PER_MINUTE * max(0.0, minutes - 1)\n",
        ),
        sh("python -m pytest"),
        sh(FLAGS_BY_STATION),
    )
    s.saw("58 passed", "{}")
    s.do(
        "No false flag is left on the 14th, and the golden day is untouched. One check that the files of the office are really "
        "as they were, then the commit.",
        sh("git status --short fixtures && git diff --stat"),
        sh(
            "git commit -qam 'Let the spike limit grow with the time since the last good reading' && git log --oneline -1"
        ),
    )
    s.say(
        "Done, and the first attempt did not survive, so that you know why it is not there: a running median takes "
        "the boat's wrong level for the truth when few good readings came before, and a longer window (5 to 61) only flags the "
        "storm for longer. Abandoned.\n\n"
        "What is in now (`tidepost/quality.py`): the limit for a spike is 0.5 m between neighbouring minutes and grows by 0.03 m for "
        "each further minute since the last good reading. On the 14th: 0 flags instead of 1,276. Four wrong values in a row are "
        "all flagged, the good one after them is not. 58 passed, fixtures/golden/ unchanged, committed."
    )


def why_not_a_cap(s: Scribe) -> None:
    s.user("Is there no upper bound? After a day of silence the limit is tens of metres. Does that hurt?")
    s.do(
        "Let me see what else would catch a nonsense value after a long silence.",
        search(r"lowest_m|highest_m", "tidepost"),
        sh(
            "python - <<'END'\n"
            "from tidepost.stations import STATIONS\n"
            "for code, s in sorted(STATIONS.items()):\n"
            "    room = s.highest_m - s.lowest_m\n"
            "    minutes = 1 + (room - 0.5) / 0.03\n"
            "    print(f'{code}: limits {s.lowest_m} to {s.highest_m} m, {room:.1f} m apart; spike can no longer fire after {minutes:.0f} minutes')\n"
            "END"
        ),
    )
    s.saw("KEL: limits 3.2 to 7.4 m, 4.2 m apart", "124 minutes")
    s.say(
        "No, it does not hurt. The flag `range` is independent of time: anything outside a station's limits is flagged however "
        "long the silence was. Within the limits, the spike check of KEL can no longer fire after 124 minutes of silence, of HUS "
        "after 158 and of WIL after 224; then nobody can know what the water did in between, and a flag would be a guess. So I "
        "would not add a cap. Nothing changed."
    )
    s.user("Agreed, no cap.")
    s.say("Good, it stays without one.")


def merge(s: Scribe) -> None:
    s.user(
        "There is a branch per-station-limits from before, with an own spike limit for each station. Please merge it into main. "
        "Keep the history, no rebase: never rewrite history in this repository, the box pulls from it."
    )
    s.do("What is on it?", sh("git log --oneline main..per-station-limits && git diff main...per-station-limits"))
    s.saw("spike_m: float = 0.5")
    s.do(
        "It replaces `SPIKE_M` by `station.spike_m` in the very line I changed, so there will be a conflict.",
        sh("git merge per-station-limits", fails=True),
    )
    s.saw("CONFLICT (content): Merge conflict in tidepost/quality.py")
    s.do(None, sh("git diff"), read("tidepost/quality.py"))
    s.saw("<<<<<<<")
    s.do(
        "Both intentions fit together: the station says what is normal between neighbouring minutes, time adds to it. `_limit` "
        "gets the station.",
        write(
            "tidepost/quality.py",
            '"""Flags on readings that the office should look at twice. Nothing is ever dropped here."""\n\n'
            "from __future__ import annotations\n\n"
            "from tidepost.readings import Reading\n"
            "from tidepost.stations import Station\n\n"
            "# The surge of 14 November 2024 rose by less than this in any minute.\n"
            "RISE_M_PER_MINUTE = 0.03\n\n\n"
            "class QualityCheck:\n"
            '    """Compares each reading with the limits of its station and with the last good one."""\n\n'
            "    def __init__(self, stations: dict[str, Station]) -> None:\n"
            "        self.stations = stations\n"
            "        self.previous: dict[str, Reading] = {}\n\n"
            "    def check(self, reading: Reading) -> Reading:\n"
            "        station = self.stations[reading.station]\n"
            "        flags = []\n"
            "        if not station.lowest_m <= reading.level_m <= station.highest_m:\n"
            '            flags.append("range")\n'
            "        before = self.previous.get(reading.station)\n"
            "        if before is not None and abs(reading.level_m - before.level_m) > _limit(station, before, reading):\n"
            '            flags.append("spike")\n'
            '        if "spike" not in flags:\n'
            "            self.previous[reading.station] = reading\n"
            "        return reading.flagged(*flags)\n\n\n"
            "def _limit(station: Station, before: Reading, reading: Reading) -> float:\n"
            '    """How far the water can have moved since the last good reading."""\n'
            "    minutes = (reading.at - before.at).total_seconds() / 60\n"
            "    return station.spike_m + RISE_M_PER_MINUTE * max(0.0, minutes - 1)\n",
        ),
        search(r"SPIKE_M|<<<<<<<|>>>>>>>"),
    )
    s.saw("no hits")
    s.do(None, sh("python -m pytest"))
    s.saw("59 passed")
    s.do(
        "One test that holds both ideas at once: the east basin may jump 0.7 m, KEL may not.",
        patch(
            "tests/test_quality.py",
            "def test_stations_do_not_disturb_each_other():",
            "def test_each_station_has_its_own_idea_of_a_jump():\n"
            '    assert flags(levels(5.0, 5.7, station="WIL")) == [(), ()]\n'
            '    assert flags(levels(5.0, 5.7, station="KEL")) == [(), ("spike",)]\n\n\n'
            "def test_stations_do_not_disturb_each_other():",
        ),
        sh("python -m pytest"),
        sh("git add -A && git commit -qm 'Merge per-station spike limits' && git log --oneline --graph -5"),
    )
    s.saw("60 passed", "Merge per-station spike limits")
    s.say(
        "Merged with a merge commit, nothing rebased. The conflict was in `tidepost/quality.py`: the branch took the limit from the "
        "station, main let it grow with time. Now it is `station.spike_m + 0.03 m` per further minute (0.8 m for WIL because of "
        "the lock, 0.5 m elsewhere). `SPIKE_M` is gone. 60 passed.\n\n"
        "I noted your rule: history is never rewritten here."
    )


def backwards(s: Scribe) -> None:
    s.user(
        "HUS sets its clock back now and then and then sends lines that are older than the one before. What do we do with those "
        "today? They should be kept, but flagged `time`."
    )
    s.do(
        "Today nothing notices. Worse, an older reading becomes the reference for the next one. Let me prove both.",
        patch(
            "tests/test_quality.py",
            "def test_stations_do_not_disturb_each_other():",
            "def test_a_clock_that_goes_back_is_flagged_and_is_no_reference():\n"
            "    first, second, third = levels(5.0, 5.01, 5.02)\n"
            '    late = Reading("KEL", START - timedelta(minutes=30), 5.4)\n'
            '    assert flags([first, second, late, third]) == [(), (), ("time",), ()]\n\n\n'
            "def test_stations_do_not_disturb_each_other():",
        ),
        sh("python -m pytest tests/test_quality.py", fails=True),
    )
    s.saw("1 failed, 7 passed")
    s.do(
        None,
        patch(
            "tidepost/quality.py",
            "        before = self.previous.get(reading.station)\n"
            "        if before is not None and abs(reading.level_m - before.level_m) > _limit(station, before, reading):\n"
            '            flags.append("spike")\n'
            '        if "spike" not in flags:\n'
            "            self.previous[reading.station] = reading\n",
            "        before = self.previous.get(reading.station)\n"
            "        if before is not None and reading.at <= before.at:\n"
            '            flags.append("time")\n'
            "        elif before is not None and abs(reading.level_m - before.level_m) > _limit(station, before, reading):\n"
            '            flags.append("spike")\n'
            "        else:\n"
            "            self.previous[reading.station] = reading\n",
        ),
        sh("python -m pytest"),
        sh("git commit -qam 'Flag readings whose clock went back' && git status -sb"),
    )
    s.saw("61 passed")
    s.say(
        "Such readings now carry the flag `time`, are relayed like all others, and never serve as the reference for the next one. "
        "61 passed, committed.\n\n"
        "Please tell the office that a new flag exists; the golden files know only `range` and `spike`."
    )
