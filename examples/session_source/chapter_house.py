"""The third day: a slow report, a renamed setting, a restart, second thoughts, a release, and a last wish."""

# ruff: noqa: E501 (what is said and written is as long as it is)

from __future__ import annotations

from session_source.scribe import Scribe
from session_source.workbench import patch, read, search, sh, write


def tell(s: Scribe) -> None:
    slow_report(s)
    gaps(s)
    renamed_setting(s)
    restart(s)
    rejected(s)
    counted(s)
    review(s)
    release(s)
    signed(s)
    replay(s)


def slow_report(s: Scribe) -> None:
    s.user("The monthly report never finishes on the box. Can you see why? A month is about 130,000 lines.")
    s.do(
        "I make a month out of the one day I have, and give it ten seconds.",
        sh(
            'for day in $(seq -w 1 30); do sed "s/2024-11-14/2024-11-$day/" var/gauge/2024-11-14.txt; done > var/gauge/month.txt; '
            "wc -l var/gauge/month.txt; timeout 10 python -m tidepost report var/gauge/month.txt",
            fails=True,
        ),
        read("tidepost/report.py"),
    )
    s.saw("127710 var/gauge/month.txt", "[exit 124]")
    s.do(
        "There it is: for every reading `summarise` builds the list of *all* earlier ones of its station to find the newest of "
        "them. They are already sorted, so it is simply the one before. Where is the time really spent? One day under the "
        "profiler, calls only.",
        sh(
            "python - <<'END'\n"
            "import cProfile, io, pstats\n"
            "from tidepost.readings import parse_line\n"
            "from tidepost.report import summarise\n"
            "readings = [parse_line(line) for line in open('var/gauge/2024-11-14.txt')]\n"
            "profile = cProfile.Profile()\n"
            "profile.runcall(summarise, readings)\n"
            "calls = {name: total for (_, _, name), (_, total, *_) in pstats.Stats(profile).stats.items()}\n"
            "for name in sorted(calls, key=calls.get, reverse=True)[:4]:\n"
            "    print(f'{calls[name]:>9}  {name}')\n"
            "END"
        ),
    )
    s.saw("<genexpr>")
    s.do(
        "Over three million steps for one day of 4,257 readings, and it grows with the square. The test for gaps exists already, so "
        "I can change it safely.",
        patch(
            "tidepost/report.py",
            "        gaps = 0\n"
            "        for reading in own:\n"
            "            earlier = [r for r in own if r.at < reading.at]\n"
            "            if earlier and reading.at - max(r.at for r in earlier) > GAP:\n"
            "                gaps += 1\n",
            "        gaps = sum(1 for before, after in pairwise(own) if after.at - before.at > GAP)\n",
        ),
        patch(
            "tidepost/report.py",
            "from datetime import timedelta\n",
            "from datetime import timedelta\nfrom itertools import pairwise\n",
        ),
        sh("timeout 10 python -m tidepost report var/gauge/month.txt"),
    )
    s.saw("station  count  flagged  gaps")
    s.do(None, sh("python -m pytest"))
    s.saw("61 passed")
    s.do(
        "A test that would hang if somebody made it quadratic again is worth little and slow; I leave it at the existing ones.",
        sh("git commit -qam 'Count gaps of the report in one pass' && rm var/gauge/month.txt && git status -sb"),
    )
    s.say(
        "`summarise` compared each reading with all earlier ones of its station, so a month needed some billions of steps. It now looks "
        "at neighbours only. My month of 127,710 lines did not finish in 10 seconds before and does now, with the same table. "
        "61 passed, committed."
    )


def gaps(s: Scribe) -> None:
    s.user("While you are there: which station had the most gaps on the 14th, and when?")
    s.do(
        None,
        sh("python -m tidepost report var/gauge/2024-11-14.txt"),
        sh(
            "python - <<'END'\n"
            "from itertools import pairwise\n"
            "from tidepost.readings import parse_line\n"
            "from tidepost.report import GAP\n"
            "days = {}\n"
            "for line in open('var/gauge/2024-11-14.txt'):\n"
            "    r = parse_line(line)\n"
            "    days.setdefault(r.station, []).append(r.at)\n"
            "for code, times in sorted(days.items()):\n"
            "    for a, b in pairwise(times):\n"
            "        if b - a > GAP:\n"
            "            print(code, a.strftime('%H:%M'), b.strftime('%H:%M'), b - a)\n"
            "END"
        ),
    )
    s.saw("HUS 09:59 10:07", "HUS 15:10 15:25", "KEL 02:01 02:44")
    s.say(
        "HUS, with two: last line 09:59, next 10:07 (8 minutes), and last line 15:10, next 15:25 (15 minutes). KEL had one, the long "
        "one of the power cut, 02:01 to 02:44 (43 minutes). WIL had none."
    )


def renamed_setting(s: Scribe) -> None:
    s.user(
        "`max_tries` under [uplink] confuses people, it sounds as if it were per flush. Rename it to `tries_per_batch`. A rule for all "
        "renames of settings: the old name keeps working for one release, with a warning in the log."
    )
    s.do("All places.", search(r"max_tries"), read("tidepost/config.py", 28, 40))
    s.do(
        "The field of `Backoff` is internal and can keep its name; the setting and the field of `Config` change. First the tests.",
        patch("tests/test_config.py", "    assert config.max_tries == 8\n", "    assert config.tries_per_batch == 8\n"),
        patch(
            "tests/test_config.py",
            "def test_a_missing_setting_is_named(tmp_path):",
            "def test_the_old_name_of_a_setting_still_works_and_warns(tmp_path, caplog):\n"
            '    text = \'[relay]\\nstations = ["KEL"]\\n[uplink]\\nurl = "x"\\nmax_tries = 3\\n\'\n'
            "    assert load(written(tmp_path, text)).tries_per_batch == 3\n"
            '    assert "[uplink] max_tries is now called tries_per_batch" in caplog.text\n\n\n'
            "def test_both_names_at_once_are_refused(tmp_path):\n"
            '    text = \'[relay]\\nstations = ["KEL"]\\n[uplink]\\nurl = "x"\\nmax_tries = 3\\ntries_per_batch = 4\\n\'\n'
            '    with pytest.raises(ConfigError, match="tries_per_batch and its old name max_tries"):\n'
            "        load(written(tmp_path, text))\n\n\n"
            "def test_a_missing_setting_is_named(tmp_path):",
        ),
        sh("python -m pytest tests/test_config.py", fails=True),
    )
    s.saw("3 failed, 2 passed")
    s.do(
        None,
        patch("tidepost/config.py", "    max_tries: int\n", "    tries_per_batch: int\n"),
        patch(
            "tidepost/config.py",
            '        max_tries=_positive(uplink, "uplink", "max_tries", 8),\n',
            '        tries_per_batch=_positive(uplink, "uplink", "tries_per_batch", 8),\n',
        ),
        patch(
            "tidepost/config.py",
            '    relay, uplink, spool = raw.get("relay", {}), raw.get("uplink", {}), raw.get("spool", {})\n',
            "    for section, old, new in RENAMED:\n"
            "        _rename(raw.get(section, {}), section, old, new)\n"
            '    relay, uplink, spool = raw.get("relay", {}), raw.get("uplink", {}), raw.get("spool", {})\n',
        ),
        patch(
            "tidepost/config.py",
            "def _need(table",
            "def _rename(table: dict[str, Any], section: str, old: str, new: str) -> None:\n"
            "    if old not in table:\n"
            "        return\n"
            "    if new in table:\n"
            '        raise ConfigError(f"[{section}] has {new} and its old name {old}; remove {old}")\n'
            '    log.warning("[%s] %s is now called %s; the old name goes with the next release", section, old, new)\n'
            "    table[new] = table.pop(old)\n\n\n"
            "def _need(table",
        ),
        patch(
            "tidepost/config.py",
            "class ConfigError(ValueError):",
            'log = logging.getLogger("tidepost.config")\n\n'
            "# Section, old name, new name: each keeps working for one release.\n"
            'RENAMED = (("uplink", "max_tries", "tries_per_batch"),)\n\n\n'
            "class ConfigError(ValueError):",
        ),
        patch("tidepost/config.py", "import tomllib\n", "import logging\nimport tomllib\n"),
        patch("config/tidepost.toml", "max_tries = 8\n", "tries_per_batch = 8\n"),
    )
    s.do(None, sh("python -m pytest"), sh("python -m tidepost flush --help", fails=False), search(r"config\.max_tries"))
    s.saw("63 passed", "tidepost/cli.py")
    s.do(
        "The tests are green and yet `cli.py` still says `config.max_tries`: no test runs `_flush`. That would have failed on the "
        "box. Fixing it, and adding the test that was missing.",
        patch(
            "tidepost/cli.py",
            "Backoff(config.max_tries, config.first_delay_s)",
            "Backoff(config.tries_per_batch, config.first_delay_s)",
        ),
        write(
            "tests/test_cli.py",
            "from tidepost.cli import main\n\n"
            'SETTINGS = """\n'
            "[relay]\n"
            'stations = ["KEL"]\n'
            "[uplink]\n"
            'url = "http://127.0.0.1:9/"\n'
            "tries_per_batch = 1\n"
            "[spool]\n"
            'directory = "{spool}"\n'
            '"""\n\n\n'
            "def settings(tmp_path):\n"
            '    path = tmp_path / "tidepost.toml"\n'
            '    path.write_text(SETTINGS.format(spool=tmp_path / "spool"))\n'
            "    return str(path)\n\n\n"
            "def test_flush_of_an_empty_spool_sends_nothing(tmp_path, capsys):\n"
            '    assert main(["--config", settings(tmp_path), "flush"]) == 0\n'
            '    assert capsys.readouterr().out == "sent 0 batches\\n"\n\n\n'
            "def test_run_spools_what_the_gauge_wrote(tmp_path):\n"
            '    gauge = tmp_path / "gauge.txt"\n'
            '    gauge.write_text("KEL|2024-11-01T00:00:00Z|5.0|m\\n")\n'
            '    assert main(["--config", settings(tmp_path), "run", str(gauge)]) == 0\n'
            '    assert [path.name for path in (tmp_path / "spool").iterdir()] == ["00000001.batch"]\n\n\n'
            "def test_a_bad_setting_ends_with_2(tmp_path, capsys):\n"
            '    path = tmp_path / "tidepost.toml"\n'
            '    path.write_text("[relay]\\n")\n'
            '    assert main(["--config", str(path), "flush"]) == 2\n'
            '    assert "[relay] stations is missing" in capsys.readouterr().err\n',
        ),
        sh("python -m pytest"),
    )
    s.saw("66 passed")
    s.do(
        None,
        sh(
            "git add -A && git commit -qm 'Rename max_tries to tries_per_batch and accept the old name' && git show --stat --format=%s"
        ),
    )
    s.say(
        "Renamed, with the old name accepted for one release (one warning in the log; both names at once are refused). `RENAMED` in "
        "`tidepost/config.py` is the place for the next rename.\n\n"
        "I must own up to one thing: after my first round all tests were green although `cli.py` still used the old field, because "
        "nothing tested the command line. There is a `tests/test_cli.py` now. 66 passed, committed."
    )


def restart(s: Scribe) -> None:
    s.user(
        "When the box reboots, the relay reads the gauge file from the start again, and the deduper has forgotten everything. Do we "
        "send the morning twice then? If so, think of something simple, no database please."
    )
    s.do("Where is the memory, and who fills it?", read("tidepost/relay.py", 18, 36), read("tidepost/dedupe.py"))
    s.do(
        "Yes: `Deduper` lives in memory only. A trial with two runs over the same file:",
        sh(
            "rm -rf var/spool && python -m tidepost run fixtures/golden/gauge-2024-11-01.txt 2>&1 | tail -n 1 && "
            "python -m tidepost run fixtures/golden/gauge-2024-11-01.txt 2>&1 | tail -n 1; ls var/spool"
        ),
    )
    s.saw("00000002.batch")
    s.do(
        "Two batches with the same five readings. Options: (a) fill the deduper from the batches that still wait in the spool, (b) "
        "keep a small file with the newest time per station. (a) forgets what was already sent, which is exactly the morning. (b) "
        "would also throw away HUS's late lines after a clock change, unless it keeps keys instead of times. So: a plain file "
        "`seen.txt` beside the batches, one key a line, the newest 10,000, rewritten whole like a batch when a batch is spooled.",
        write(
            "tidepost/dedupe.py",
            '"""Readings that were seen before, recognised by station and time, also after a restart."""\n\n'
            "from __future__ import annotations\n\n"
            "from collections import OrderedDict\n"
            "from pathlib import Path\n\n"
            "from tidepost.readings import Reading\n\n\n"
            "class Deduper:\n"
            '    """Remembers the newest `size` keys; a reading older than those passes."""\n\n'
            "    def __init__(self, size: int = 10_000, path: Path | None = None) -> None:\n"
            "        self.size = size\n"
            "        self.path = path\n"
            "        self.seen: OrderedDict[str, None] = OrderedDict()\n"
            "        if path is not None and path.exists():\n"
            "            self.seen.update((key, None) for key in path.read_text().splitlines()[-size:])\n\n"
            "    def is_new(self, reading: Reading) -> bool:\n"
            '        key = f"{reading.station} {reading.at.isoformat()}"\n'
            "        if key in self.seen:\n"
            "            return False\n"
            "        self.seen[key] = None\n"
            "        if len(self.seen) > self.size:\n"
            "            self.seen.popitem(last=False)\n"
            "        return True\n\n"
            "    def save(self) -> None:\n"
            '        """Write the memory down, whole or not at all."""\n'
            "        if self.path is None:\n"
            "            return\n"
            '        draft = self.path.with_suffix(".tmp")\n'
            '        draft.write_text("".join(key + "\\n" for key in self.seen))\n'
            "        draft.rename(self.path)\n",
        ),
        patch(
            "tidepost/relay.py",
            "        self.deduper = Deduper()\n",
            '        self.deduper = Deduper(path=spool.directory / "seen.txt")\n',
        ),
        patch(
            "tidepost/relay.py",
            "            name = self.spool.put(encode(batch))\n",
            "            name = self.spool.put(encode(batch))\n"
            "            # After the batch: a crash in between repeats readings, the other order would lose them.\n"
            "            self.deduper.save()\n",
        ),
        patch(
            "tests/test_relay.py",
            "def test_a_bad_line_is_counted_and_passed_over(tmp_path):",
            "def test_a_restart_does_not_relay_the_morning_again(tmp_path):\n"
            '    lines = ["KEL|2024-11-01T00:00:00Z|5.0|m", "KEL|2024-11-01T00:01:00Z|5.0|m"]\n'
            "    relayed(tmp_path, lines)\n"
            '    _, readings = relayed(tmp_path, [*lines, "KEL|2024-11-01T00:02:00Z|5.0|m"])\n'
            "    assert [reading.at.minute for reading in readings] == [0, 1, 2]\n\n\n"
            "def test_a_bad_line_is_counted_and_passed_over(tmp_path):",
        ),
        sh("python -m pytest", fails=True),
    )
    s.saw("1 failed, 66 passed", "seen.txt")
    s.do(
        "My own test of the command line was too strict: it wants nothing but the batch in the folder, and now the memory lies "
        "beside it. It should ask for batches.",
        patch(
            "tests/test_cli.py",
            '(tmp_path / "spool").iterdir()]',
            '(tmp_path / "spool").glob("*.batch")]',
        ),
        sh("python -m pytest"),
    )
    s.saw("67 passed")
    s.do(
        None,
        sh(
            "rm -rf var/spool && python -m tidepost run fixtures/golden/gauge-2024-11-01.txt 2>&1 | tail -n 1 && "
            "python -m tidepost run fixtures/golden/gauge-2024-11-01.txt 2>&1 | tail -n 1; ls var/spool && cat var/spool/seen.txt"
        ),
        sh("git commit -qam 'Remember seen readings across restarts' && git log --oneline | head -n 3"),
    )
    s.saw("seen.txt", "KEL 2024-11-01T00:03:00+00:00")
    s.say(
        "Yes, the morning was sent twice after a reboot. Now the relay keeps the newest 10,000 keys in `var/spool/seen.txt`, rewritten "
        "after each batch. With three gauges that is about 55 hours.\n\n"
        "Order on purpose: first the batch, then the memory. A crash between the two repeats at most one batch; the other order could "
        "lose one. I decided against a time per station because of HUS's late lines. 67 passed, committed."
    )


def rejected(s: Scribe) -> None:
    s.user(
        "Rejected lines only go to the log. Please also append them to var/rejected.txt so that we can look at them later."
    )
    s.do(
        None,
        read("tidepost/relay.py", 20, 30),
        patch(
            "tidepost/relay.py",
            "                self.rejected += 1\n",
            "                self.rejected += 1\n"
            '                with (self.spool.directory.parent / "rejected.txt").open("a") as file:\n'
            '                    file.write(line.rstrip("\\n") + "\\n")\n',
        ),
        sh("python -m pytest tests/test_relay.py"),
    )
    s.saw("5 passed")
    s.do(
        "It works, but one thing worries me: a broken gauge can write garbage all night. How large could the file get?",
        sh(
            "python -c \"print(3 * 60 * 24 * 30 * len('KEL|2024-11-01T00:00:00Z|#####|m\\n') // 1024, 'KiB a month, three gauges')\""
        ),
    )
    s.saw("KiB a month")
    s.say(
        "The lines are appended to `var/rejected.txt` now. Not committed yet, because of one question: if all three gauges wrote garbage "
        "for a month, the file would grow to about 4 MiB, and nothing ever shortens it. Is that acceptable on the box, or should I bound it?"
    )
    s.user(
        "Hm, no. Second thoughts: the flash card of the box is nearly full, and nobody will ever read that file. Forget rejected.txt. "
        "Count rejected lines by reason instead and log the counts once, at the end of a run."
    )
    s.do("Then away with it first.", sh("git checkout tidepost/relay.py && rm -f var/rejected.txt && git status -sb"))


def counted(s: Scribe) -> None:
    s.do(
        "The reasons are only text in `ReadingError` today, with the offending line in it, so they cannot be counted. The exception "
        "gets a short `reason` of its own.",
        search(r"ReadingError\("),
        read("tidepost/readings.py", 13, 8),
    )
    s.do(
        None,
        patch(
            "tidepost/readings.py",
            'class ReadingError(ValueError):\n    """A gauge line that cannot be understood."""\n',
            "class ReadingError(ValueError):\n"
            '    """A gauge line that cannot be understood; `reason` is the same for all lines of its kind."""\n\n'
            "    def __init__(self, reason: str, value: str) -> None:\n"
            '        super().__init__(f"{reason}: {value!r}")\n'
            "        self.reason = reason\n",
        ),
        patch(
            "tidepost/readings.py",
            'raise ReadingError(f"expected 4 fields, got {len(fields)}: {line!r}")',
            'raise ReadingError("not 4 fields", line)',
        ),
        patch(
            "tidepost/readings.py",
            'raise ReadingError(f"unknown unit {unit!r}: {line!r}")',
            'raise ReadingError("unknown unit", unit)',
        ),
        patch(
            "tidepost/readings.py",
            'raise ReadingError(f"bad level {level!r}")',
            'raise ReadingError("bad level", level)',
        ),
        patch(
            "tidepost/readings.py",
            'raise ReadingError(f"bad time {stamp!r}") from error',
            'raise ReadingError("bad time", stamp) from error',
        ),
        patch("tidepost/relay.py", "        self.rejected = 0\n", "        self.rejected: Counter[str] = Counter()\n"),
        patch(
            "tidepost/relay.py",
            '                self.rejected += 1\n                log.warning("rejected: %s", error)\n',
            "                self.rejected[error.reason] += 1\n",
        ),
        patch(
            "tidepost/relay.py",
            "    def close(self) -> None:\n",
            "    def close(self) -> None:\n"
            "        for reason, count in sorted(self.rejected.items()):\n"
            '            log.warning("rejected %d lines: %s", count, reason)\n',
        ),
        patch("tidepost/relay.py", "import logging\n", "import logging\nfrom collections import Counter\n"),
        sh("python -m pytest", fails=True),
    )
    s.saw("1 failed, 66 passed")
    s.do(
        None,
        patch(
            "tests/test_relay.py",
            "def test_a_bad_line_is_counted_and_passed_over(tmp_path):\n"
            '    relay, readings = relayed(tmp_path, ["garbage", "KEL|2024-11-01T00:00:00Z|5.0|m"])\n'
            "    assert relay.rejected == 1\n",
            "def test_bad_lines_are_counted_by_reason_and_passed_over(tmp_path, caplog):\n"
            '    bad = ["garbage", "KEL|2024-11-01T00:00:00Z|x|m", "KEL|2024-11-01T00:01:00Z|y|m"]\n'
            '    relay, readings = relayed(tmp_path, [*bad, "KEL|2024-11-01T00:00:00Z|5.0|m"])\n'
            '    assert relay.rejected == {"not 4 fields": 1, "bad level": 2}\n'
            '    assert "rejected 2 lines: bad level" in caplog.text\n',
        ),
        sh("python -m pytest"),
        sh("git commit -qam 'Count rejected lines by reason' && git status -sb"),
    )
    s.saw("67 passed")
    s.say(
        "`var/rejected.txt` is gone again, never committed. Rejected lines are counted by reason (`not 4 fields`, `unknown unit`, `bad "
        "level`, `bad time`) and logged once when the run ends, one line per reason. The warning per line is gone too: the flash "
        "card should not fill through the log instead. 67 passed, committed."
    )


def review(s: Scribe) -> None:
    s.user(
        "Before the release: anything in the code that you would not like to defend? I prefer small dataclasses to dicts and tuples, by the way."
    )
    s.do(
        "I read everything once more, with fresh eyes.",
        read("tidepost/relay.py"),
        read("tidepost/spool.py"),
        read("tidepost/uplink.py"),
        read("tidepost/cli.py"),
    )
    s.do(
        "Three things: `Relay._store` takes a bare `list | None`; `report.Line` is a mutable dataclass for no reason; and `RENAMED` is a "
        "tuple of tuples, which you just said you do not like. Small changes, one commit.",
        patch(
            "tidepost/relay.py",
            "    def _store(self, batch: list | None) -> None:\n",
            "    def _store(self, batch: list[Reading] | None) -> None:\n",
        ),
        patch(
            "tidepost/relay.py",
            "from tidepost.readings import ReadingError, parse_line\n",
            "from tidepost.readings import Reading, ReadingError, parse_line\n",
        ),
        patch("tidepost/report.py", "@dataclass\nclass Line:", "@dataclass(frozen=True)\nclass Line:"),
        patch(
            "tidepost/config.py",
            "# Section, old name, new name: each keeps working for one release.\n"
            'RENAMED = (("uplink", "max_tries", "tries_per_batch"),)\n',
            "\n@dataclass(frozen=True)\n"
            "class Rename:\n"
            '    """A setting under a new name; the old one keeps working for one release."""\n\n'
            "    section: str\n"
            "    old: str\n"
            "    new: str\n\n\n"
            'RENAMED = (Rename("uplink", "max_tries", "tries_per_batch"),)\n',
        ),
        patch(
            "tidepost/config.py",
            "    for section, old, new in RENAMED:\n        _rename(raw.get(section, {}), section, old, new)\n",
            "    for rename in RENAMED:\n        _rename(raw.get(rename.section, {}), rename)\n",
        ),
        patch(
            "tidepost/config.py",
            "def _rename(table: dict[str, Any], section: str, old: str, new: str) -> None:\n"
            "    if old not in table:\n"
            "        return\n"
            "    if new in table:\n"
            '        raise ConfigError(f"[{section}] has {new} and its old name {old}; remove {old}")\n'
            '    log.warning("[%s] %s is now called %s; the old name goes with the next release", section, old, new)\n'
            "    table[new] = table.pop(old)\n",
            "def _rename(table: dict[str, Any], name: Rename) -> None:\n"
            "    if name.old not in table:\n"
            "        return\n"
            "    if name.new in table:\n"
            '        raise ConfigError(f"[{name.section}] has {name.new} and its old name {name.old}; remove {name.old}")\n'
            '    log.warning("[%s] %s is now called %s; the old name goes with the next release", name.section, name.old, name.new)\n'
            "    table[name.new] = table.pop(name.old)\n",
        ),
        sh("python -m pytest"),
        sh("git commit -qam 'Prefer frozen dataclasses to tuples and loose lists' && git log --oneline -1"),
    )
    s.saw("67 passed")
    s.say(
        "Three small things, changed in one commit (67 passed): `RENAMED` is made of `Rename` values now, `report.Line` is frozen, and "
        "`Relay._store` says what its list holds.\n\n"
        "Two that I would defend but want to name: a full disk still ends the relay process (you know that one), and `Spool.put` lists "
        "the whole folder for every batch. With at most 5,000 files that is cheap enough. I noted your preference for small dataclasses."
    )


def release(s: Scribe) -> None:
    s.user("Good. Make it 0.8.0: version in both places, a CHANGELOG.md for the people who run the boxes, and a tag.")
    s.do(
        "Where does the version stand, and what happened since the last one?",
        search(r"0\.7\.2"),
        sh("git log --oneline --no-merges"),
    )
    s.saw("pyproject.toml:3", "tidepost/__init__.py:3")
    s.do(
        None,
        patch("pyproject.toml", 'version = "0.7.2"', 'version = "0.8.0"'),
        patch("tidepost/__init__.py", '__version__ = "0.7.2"', '__version__ = "0.8.0"'),
        write(
            "CHANGELOG.md",
            "# Changes\n\n"
            "## 0.8.0\n\n"
            "- A link that dies half way no longer makes the office get batches twice.\n"
            "- Each batch is tried 8 times within two minutes, with pauses that differ from box to box.\n"
            "- A full disk leaves no torn batches; torn ones of earlier versions are moved to `var/spool/bad`.\n"
            "- Levels may have a decimal comma. A bad level no longer ends the run.\n"
            "- A storm surge during a power cut is not flagged `spike` any more; each station has its own limit.\n"
            "- New flag `time`: the clock of the gauge went back.\n"
            "- Monthly reports finish.\n"
            "- After a reboot the morning is not sent again (`var/spool/seen.txt`).\n"
            "- Rejected lines are counted by reason, once per run.\n"
            "- `[uplink] max_tries` is now `tries_per_batch`; the old name works until 0.9.\n",
        ),
        sh(
            "python -m pytest && git add -A && git commit -qm 'Release 0.8.0' && git tag -a v0.8.0 -m 'tidepost 0.8.0' && git describe"
        ),
    )
    s.saw("67 passed", "v0.8.0")
    s.say(
        "0.8.0 is tagged on main: version in `pyproject.toml` and `tidepost/__init__.py`, ten entries in `CHANGELOG.md`, 67 passed. Nothing is pushed."
    )


def signed(s: Scribe) -> None:
    s.user("And fixtures/golden/ is untouched since the start? The office will ask.")
    s.do(
        None,
        sh(
            "git log --oneline -- fixtures/golden; git diff --stat $(git rev-list --max-parents=0 HEAD) HEAD -- fixtures/golden; sha256sum fixtures/golden/*"
        ),
    )
    s.saw("Relay readings from three gauges")
    s.say(
        "Untouched. The only commit that ever changed `fixtures/golden/` is the first one, and the difference between it and v0.8.0 is empty "
        "there. The checksums of both files are in the output above, should they want to compare."
    )


def replay(s: Scribe) -> None:
    s.user(
        "Last thing for this week. Sometimes the office loses a day and wants it again. Add `tidepost replay GAUGE --since TIME "
        "[--until TIME]`: it puts the readings of that stretch into the spool again, past the deduper. It must only show what it "
        "would do unless `--really` is given. And it must never mix with live batches: one batch per station and hour, with the flag "
        "`replayed` on every reading."
    )
    s.do(
        "The pieces that this needs: the command line, the relay's way of storing, and the batch names of the spool.",
        read("tidepost/cli.py", 20, 45),
        read("tidepost/codec.py", 18, 12),
        search(r"flags"),
    )
    s.do(
        "Plan: a module `tidepost/replay.py` with a pure function `stretch(readings, since, until)` that groups by station and hour, and "
        "the command around it. Quality flags are computed as in a live run, over the *whole* file, so that the reference before the "
        "stretch is right; `replayed` is added last. Tests first.",
        write(
            "tests/test_replay.py",
            "from datetime import UTC, datetime, timedelta\n\n"
            "from tidepost.readings import Reading\n"
            "from tidepost.replay import stretch\n\n"
            "START = datetime(2024, 11, 14, tzinfo=UTC)\n\n\n"
            'def reading(minute, station="KEL"):\n'
            "    return Reading(station, START + timedelta(minutes=minute), 5.0)\n\n\n"
            "def test_a_stretch_is_one_batch_per_station_and_hour():\n"
            '    readings = [reading(minute, code) for minute in (0, 59, 60) for code in ("KEL", "HUS")]\n'
            "    batches = stretch(readings, START, START + timedelta(hours=2))\n"
            "    assert [len(batch) for batch in batches] == [2, 1, 2, 1]\n"
            '    assert [batch[0].station for batch in batches] == ["HUS", "HUS", "KEL", "KEL"]\n\n\n'
            "def test_the_end_of_a_stretch_is_not_in_it():\n"
            "    [batch] = stretch([reading(0), reading(1), reading(2)], START, START + timedelta(minutes=2))\n"
            "    assert [r.at.minute for r in batch] == [0, 1]\n\n\n"
            "def test_every_reading_says_that_it_is_replayed():\n"
            '    [[only]] = stretch([reading(0).flagged("range")], START, START + timedelta(hours=1))\n'
            '    assert only.flags == ("range", "replayed")\n',
        ),
        sh("python -m pytest tests/test_replay.py", fails=True),
    )
    s.saw("ModuleNotFoundError: No module named 'tidepost.replay'")
    s.do(
        "As expected, the module is missing. Now the grouping.",
        write(
            "tidepost/replay.py",
            '"""Readings of a past stretch, once more, for an office that lost them."""\n\n'
            "from __future__ import annotations\n\n"
            "from collections import defaultdict\n"
            "from collections.abc import Iterable\n"
            "from datetime import datetime\n\n"
            "from tidepost.readings import Reading\n\n"
            'REPLAYED = "replayed"\n\n\n'
            "def stretch(readings: Iterable[Reading], since: datetime, until: datetime) -> list[list[Reading]]:\n"
            '    """The readings from `since` up to, not including, `until`: one batch per station and hour."""\n'
            "    batches: dict[tuple[str, datetime], list[Reading]] = defaultdict(list)\n"
            "    for reading in readings:\n"
            "        if since <= reading.at < until:\n"
            "            hour = reading.at.replace(minute=0, second=0)\n"
            "            batches[reading.station, hour].append(reading.flagged(REPLAYED))\n"
            "    return [batches[key] for key in sorted(batches)]\n",
        ),
        sh("python -m pytest"),
    )
    s.saw("70 passed")
