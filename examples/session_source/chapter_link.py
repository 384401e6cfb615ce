"""The first day: readings that arrive twice, a link that needs patience, a disk that is full, a comma."""

# ruff: noqa: E501 (what is said and written is as long as it is)

from __future__ import annotations

from session_source.scribe import Scribe
from session_source.workbench import patch, read, search, sh, write


def tell(s: Scribe) -> None:
    duplicates(s)
    patience(s)
    more_patience(s)
    full_disk(s)
    torn_batches(s)
    comma(s)


def duplicates(s: Scribe) -> None:
    s.user(
        "The office called: after the radio outage on the 13th they got 23 of our batches three times each. Please find "
        "out why and fix it. The relay's log is in logs/relay-2024-11-14.log.\n\n"
        "Some rules for this repository: never touch anything under fixtures/golden/, the office signs those files. "
        "No new dependencies, the relay box has only the standard library. And always run the whole test suite before "
        "you tell me that something is done."
    )
    s.do(
        "I will start with the layout and the README.",
        sh("git log --oneline && git status -sb && ls"),
        read("README.md"),
    )
    s.do(None, sh("find . -type f -not -path './.git/*' | sort | xargs wc -l"))
    s.saw("./logs/relay-2024-11-14.log")
    s.do(
        "The spool and the uplink are where a batch could be sent again. Reading both, and their tests.",
        read("tidepost/uplink.py"),
        read("tidepost/spool.py"),
        read("tests/test_uplink.py"),
    )
    s.saw("for name in sent:")
    s.do("Now what really happened that night.", sh("cat logs/relay-2024-11-14.log"))
    s.saw("lines omitted")
    s.do(
        "The middle is cut. I only need the sends, counted by batch.",
        sh("grep -o 'sent [0-9]*.batch' logs/relay-2024-11-14.log | sort | uniq -c | awk '$1 > 1'"),
        sh("grep -n 'gave up' logs/relay-2024-11-14.log | awk -F'[ :]' '$2 >= \"2024-11-14T04\"' | tail -n 8"),
    )
    s.saw("3 sent 00004656.batch", "3 sent 00004678.batch")
    s.do(
        "23 batches, 4656 to 4678, went out three times: at 04:50, 05:00 and 05:10. Each time the flush then gave up on "
        "the next batch, 4679. Let me look at one of them.",
        sh("grep -n -e '00004656.batch' -e '00004679.batch' logs/relay-2024-11-14.log | tail -n 24"),
    )
    s.do(
        "That fits the code: `flush` collects the names in `sent` and acknowledges them only after the *whole* loop. When "
        "`_send` raises LinkDownError on batch 24, the 23 before it were delivered but are still in the spool. I will "
        "pin that down with a test before I change anything.",
        patch(
            "tests/test_uplink.py",
            "def test_a_dead_link_keeps_what_waits(tmp_path):",
            "def test_a_link_that_dies_half_way_does_not_send_the_first_half_again(tmp_path):\n"
            '    spool = spool_with(tmp_path, b"one", b"two", b"three")\n'
            "    answers = iter([200, 200, 503])\n"
            "    with pytest.raises(LinkDownError):\n"
            "        Uplink(lambda _: next(answers), spool, ONE_TRY).flush()\n"
            '    assert spool.pending() == ["00000003.batch"]\n\n\n'
            "def test_a_dead_link_keeps_what_waits(tmp_path):",
        ),
        sh("python -m pytest tests/test_uplink.py", fails=True),
    )
    s.saw("1 failed, 2 passed")
    s.do(
        "It fails for the right reason: all three batches are still pending. The fix is to acknowledge each batch as soon "
        "as the office has answered 200 for it.",
        patch(
            "tidepost/uplink.py",
            "        sent = []\n"
            "        for name in self.spool.pending():\n"
            "            self._send(name)\n"
            "            sent.append(name)\n"
            "        for name in sent:\n"
            "            self.spool.ack(name)\n"
            "        return len(sent)\n",
            "        sent = 0\n"
            "        for name in self.spool.pending():\n"
            "            self._send(name)\n"
            "            # At once: a later batch may fail, and this one must not go out again.\n"
            "            self.spool.ack(name)\n"
            "            sent += 1\n"
            "        return sent\n",
        ),
    )
    s.do(None, sh("python -m pytest"))
    s.saw("41 passed")
    s.say(
        "Found and fixed.\n\n"
        "**Why:** `Uplink.flush` sent all waiting batches first and acknowledged them afterwards, in a second loop. When the "
        "link came back, before 04:50 on the 14th, it held for 23 batches at a time; the flush then raised on batch 00004679 "
        "before anything was acknowledged, so 00004656 to 00004678 were sent again at 05:00 and at 05:10.\n\n"
        "**Fix:** `tidepost/uplink.py` acknowledges each batch right after its 200. A test in `tests/test_uplink.py` "
        "reproduces the half-way failure; it failed before and passes now. Whole suite: 41 passed.\n\n"
        "One case remains by nature: if the power fails between the 200 and the unlink, one batch goes out twice. Only the "
        "office can recognise that one. Nothing is committed yet."
    )
    s.user(
        "Good find. One batch twice is fine with them. Commit it. For commits here: imperative mood, one topic per commit, "
        "and no prefixes like `fix:`."
    )
    s.do(None, sh("git diff --stat"))
    s.saw("2 files changed")
    s.do(None, sh("git commit -qam 'Acknowledge each batch as soon as the office has it' && git log --oneline -2"))
    s.saw("Acknowledge each batch")
    s.say("Committed on main, with both files. From here on: imperative, one topic per commit, no prefixes.")


def patience(s: Scribe) -> None:
    s.user(
        "Next: when the link returns, all relay boxes on the coast retry in the same second and knock it over again. Add "
        "jitter to the pauses. At most 5 tries per batch, as now: above that the office bans us for an hour."
    )
    s.do(
        "Reading the pauses and everything that uses them.",
        read("tidepost/backoff.py"),
        read("tests/test_backoff.py"),
        search(r"Backoff|backoff"),
    )
    s.saw("tidepost/cli.py")
    s.do(
        "Decision: the jitter only *shortens* a pause, by up to half. Then the sum of the pauses stays an upper bound, which "
        "matters on a box where cron starts the next flush after ten minutes. The random source is a parameter, so that "
        "tests need no luck.",
        write(
            "tidepost/backoff.py",
            '"""How long to wait between two tries."""\n\n'
            "from __future__ import annotations\n\n"
            "import random\n"
            "from collections.abc import Callable, Iterator\n"
            "from dataclasses import dataclass\n\n\n"
            "@dataclass(frozen=True)\n"
            "class Backoff:\n"
            "    max_tries: int = 5\n"
            "    first_delay_s: float = 2.0\n"
            "    factor: float = 2.0\n"
            "    jitter: float = 0.5\n"
            '    """How much of a pause may be taken away by chance; it is never made longer."""\n'
            "    chance: Callable[[], float] = random.random\n\n"
            "    def delays(self) -> Iterator[float]:\n"
            '        """The pauses between tries: one fewer than there are tries."""\n'
            "        delay = self.first_delay_s\n"
            "        for _ in range(self.max_tries - 1):\n"
            "            yield delay * (1 - self.jitter * self.chance())\n"
            "            delay *= self.factor\n",
        ),
        sh("python -m pytest tests/test_backoff.py", fails=True),
    )
    s.saw("1 failed, 1 passed")
    s.do(
        "Expected: the old test knows no jitter. I give it a chance of 0 and add the bounds.",
        write(
            "tests/test_backoff.py",
            "from tidepost.backoff import Backoff\n\n\n"
            "def test_each_pause_is_twice_the_one_before():\n"
            "    backoff = Backoff(max_tries=5, first_delay_s=2.0, chance=lambda: 0.0)\n"
            "    assert list(backoff.delays()) == [2.0, 4.0, 8.0, 16.0]\n\n\n"
            "def test_jitter_shortens_a_pause_by_half_at_most():\n"
            "    backoff = Backoff(max_tries=5, first_delay_s=2.0, chance=lambda: 1.0)\n"
            "    assert list(backoff.delays()) == [1.0, 2.0, 4.0, 8.0]\n\n\n"
            "def test_one_try_has_no_pause():\n"
            "    assert list(Backoff(max_tries=1).delays()) == []\n",
        ),
        patch(
            "tests/test_uplink.py",
            "def test_a_dead_link_keeps_what_waits(tmp_path):",
            "def test_a_batch_is_tried_again_after_each_pause(tmp_path):\n"
            "    answers = iter([503, 0, 200])\n"
            '    spool = spool_with(tmp_path, b"one")\n'
            "    assert Uplink(lambda _: next(answers), spool, Backoff(chance=lambda: 0.0)).flush() == 1\n\n\n"
            "def test_a_dead_link_keeps_what_waits(tmp_path):",
        ),
    )
    s.do(None, sh("python -m pytest", timeout=5, fails=True))
    s.saw("timed out after 5 s")
    s.do(
        "My new test really sleeps 2 + 4 seconds, because `_send` calls `time.sleep` itself. A test must not wait: the "
        "sleeper becomes a field of the uplink.",
        patch(
            "tidepost/uplink.py",
            "    backoff: Backoff = field(default_factory=Backoff)\n",
            "    backoff: Backoff = field(default_factory=Backoff)\n    sleep: Callable[[float], None] = time.sleep\n",
        ),
        patch("tidepost/uplink.py", "            time.sleep(delay)\n", "            self.sleep(delay)\n"),
        patch(
            "tests/test_uplink.py",
            "    answers = iter([503, 0, 200])\n"
            '    spool = spool_with(tmp_path, b"one")\n'
            "    assert Uplink(lambda _: next(answers), spool, Backoff(chance=lambda: 0.0)).flush() == 1\n",
            "    answers = iter([503, 0, 200])\n"
            "    slept = []\n"
            '    spool = spool_with(tmp_path, b"one")\n'
            "    uplink = Uplink(lambda _: next(answers), spool, Backoff(chance=lambda: 0.0), slept.append)\n"
            "    assert uplink.flush() == 1\n"
            "    assert slept == [2.0, 4.0]\n",
        ),
    )
    s.do(None, sh("python -m pytest"))
    s.saw("43 passed")
    s.do(
        None,
        sh("git commit -qam 'Shorten pauses by chance so that relay boxes do not retry in step' && git status -sb"),
    )
    s.say(
        "Jitter is in: every pause is shortened by up to 50%, never lengthened, so five tries still wait at most "
        "2 + 4 + 8 + 16 = 30 s. `max_tries` stays 5, as the office demands.\n\n"
        "Two things on the way: my first version of the retry test hung because `_send` slept for real; the sleeper is now "
        "injected (`Uplink.sleep`). Suite: 43 passed, committed."
    )


def more_patience(s: Scribe) -> None:
    s.user(
        "News from the office: the ban is gone. Forget the 5 tries. It is 8 tries now, but all pauses of one batch together "
        "never more than 120 seconds, because of the cron job."
    )
    s.do(
        "With doubling alone, 8 tries would wait 2+4+8+16+32+64+128 = 254 s. If no single pause exceeds 30 s it is "
        "2+4+8+16+30+30+30 = 120 s exactly. Where does the number 5 stand today?",
        search(r"max_tries"),
    )
    s.saw("config/tidepost.toml", "tests/test_config.py")
    s.do(
        None,
        patch(
            "tidepost/backoff.py",
            "    max_tries: int = 5\n    first_delay_s: float = 2.0\n    factor: float = 2.0\n",
            "    max_tries: int = 8\n    first_delay_s: float = 2.0\n    factor: float = 2.0\n"
            "    longest_delay_s: float = 30.0\n",
        ),
        patch(
            "tidepost/backoff.py",
            "            delay *= self.factor\n",
            "            delay = min(delay * self.factor, self.longest_delay_s)\n",
        ),
        patch("config/tidepost.toml", "max_tries = 5\n", "max_tries = 8\n"),
        patch(
            "tidepost/config.py",
            '_positive(uplink, "uplink", "max_tries", 5)',
            '_positive(uplink, "uplink", "max_tries", 8)',
        ),
        patch(
            "tests/test_backoff.py",
            "def test_one_try_has_no_pause():",
            "def test_the_default_pauses_fit_into_two_minutes():\n"
            "    pauses = list(Backoff(chance=lambda: 0.0).delays())\n"
            "    assert pauses == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]\n"
            "    assert sum(pauses) <= 120\n\n\n"
            "def test_one_try_has_no_pause():",
        ),
    )
    s.do(None, sh("python -m pytest", fails=True))
    s.saw("1 failed, 43 passed")
    s.do(
        "Only the test of the shipped settings still expects 5.",
        patch("tests/test_config.py", "    assert config.max_tries == 5\n", "    assert config.max_tries == 8\n"),
        sh("python -m pytest"),
    )
    s.saw("44 passed")
    s.do(None, sh("git commit -qam 'Try each batch eight times within two minutes' && git log --oneline -3"))
    s.say(
        "Done: 8 tries, no pause longer than 30 s, 120 s in all at the very most, since jitter only shortens. The old limit of "
        "5 is gone from the code, the default and `config/tidepost.toml`. 44 passed, committed.\n\n"
        "Note: a longer `first_delay_s` in somebody's config can still exceed 120 s; the cap is per pause, not on the sum."
    )


def full_disk(s: Scribe) -> None:
    s.user(
        "Just a question, do not change anything: what happens when the disk is full while a batch is being spooled?"
    )
    s.do(
        "I will try it instead of guessing: a process that may write 2 KiB to a file, and a batch of 4 KiB.",
        sh(
            "ulimit -f 2; python - <<'END'\n"
            "from pathlib import Path\n"
            "from tidepost.spool import Spool\n"
            "spool = Spool(Path('var/try-spool'))\n"
            "try:\n"
            "    spool.put(b'x' * 4096)\n"
            "except OSError as error:\n"
            "    print('put raised:', error)\n"
            "print('pending:', spool.pending())\n"
            "print('bytes on disk:', len(spool.read(spool.pending()[0])))\n"
            "END"
        ),
    )
    s.saw("bytes on disk: 2048")
    s.do(
        "And what would the uplink do with such a torn batch?",
        read("tidepost/codec.py", 20, 30),
        sh("rm -r var/try-spool && git status --short"),
    )
    s.say(
        "Today it goes wrong in two steps:\n\n"
        "1. `Spool.put` writes straight to the final name. With a full disk it raises `OSError` and leaves the *first part* of "
        "the batch there as `NNNNNNNN.batch` (in my trial 2,048 of 4,096 bytes). The readings of that batch are lost with the "
        "exception, because `Relay._store` does not catch it and the process ends.\n"
        "2. At the next flush the torn file is sent like any other. The office checks the checksum of the header and refuses "
        "it, so the uplink retries 8 times, gives up, and **every later batch waits behind it for ever**.\n\n"
        "I changed nothing and removed my trial folder."
    )


def torn_batches(s: Scribe) -> None:
    s.user(
        "I feared so. Make it right: a batch is either there whole or not there. And a torn one from earlier must not block "
        "the rest. But do not delete torn files, I want to look at them: move them to a folder `bad` inside the spool."
    )
    s.do("The files as they are now.", read("tidepost/spooling.py", fails=True), read("tests/test_spool.py"))
    s.saw("does not exist")
    s.do(
        "The module is called spool.py, of course.",
        read("tidepost/spool.py", 14, 25),
        read("tidepost/uplink.py", 22, 40),
    )
    s.do(
        "Write to a `.tmp` name, fsync, then rename: on one file system the rename is atomic. A `.tmp` that a crash left "
        "behind was never promised to anybody, so it may go at the next start; torn `.batch` files are moved, not deleted.",
        patch(
            "tidepost/spool.py",
            "        (self.directory / name).write_bytes(raw)\n        return str(name)\n",
            "        self._write_whole(self.directory / name, raw)\n        return name\n",
            fails=True,
        ),
    )
    s.saw("occurs 0 times")
    s.do(
        "I misremembered the last line; it is `return name`.",
        patch(
            "tidepost/spool.py",
            "        (self.directory / name).write_bytes(raw)\n        return name\n",
            "        self._write_whole(self.directory / name, raw)\n        return name\n",
        ),
        patch(
            "tidepost/spool.py",
            "    def _last_number(self) -> int:\n",
            "    def set_aside(self, name: str) -> Path:\n"
            '        """Move a batch that cannot be sent to `bad`, where a person can look at it."""\n'
            '        bad = self.directory / "bad"\n'
            "        bad.mkdir(exist_ok=True)\n"
            "        return (self.directory / name).rename(bad / name)\n\n"
            "    def _write_whole(self, path: Path, raw: bytes) -> None:\n"
            '        draft = path.with_suffix(".tmp")\n'
            "        try:\n"
            '            with draft.open("wb") as file:\n'
            "                file.write(raw)\n"
            "                file.flush()\n"
            "                os.fsync(file.fileno())\n"
            "        except OSError:\n"
            "            draft.unlink(missing_ok=True)\n"
            "            raise\n"
            "        draft.rename(path)\n\n"
            "    def _last_number(self) -> int:\n",
        ),
        patch("tidepost/spool.py", "from pathlib import Path\n", "import os\nfrom pathlib import Path\n"),
        patch(
            "tidepost/spool.py",
            "        self.counter = self._last_number()\n",
            '        for draft in self.directory.glob("*.tmp"):\n'
            "            draft.unlink()\n"
            "        self.counter = self._last_number()\n",
        ),
    )
    s.do(
        "Now the uplink: look at a batch before sending it, with the codec that wrote it.",
        patch(
            "tidepost/uplink.py",
            "        for name in self.spool.pending():\n            self._send(name)\n",
            "        for name in self.spool.pending():\n"
            "            if not self._is_whole(name):\n"
            "                continue\n"
            "            self._send(name)\n",
        ),
        patch(
            "tidepost/uplink.py",
            "    def _send(self, name: str) -> None:\n",
            "    def _is_whole(self, name: str) -> bool:\n"
            '        """Whether a batch can be sent; a torn one is set aside so that it blocks nobody."""\n'
            "        try:\n"
            "            decode(self.spool.read(name))\n"
            "        except ValueError as error:\n"
            '            log.error("%s is torn (%s), moved to %s", name, error, self.spool.set_aside(name))\n'
            "            return False\n"
            "        return True\n\n"
            "    def _send(self, name: str) -> None:\n",
        ),
        patch(
            "tidepost/uplink.py",
            "from tidepost.backoff import Backoff\n",
            "from tidepost.backoff import Backoff\nfrom tidepost.codec import decode\n",
        ),
    )
    s.do(None, sh("python -m pytest", fails=True))
    s.saw("4 failed, 40 passed")
    s.do(
        'The four failures are mine to answer: these tests send `b"one"`, which is no batch, and now it is set aside. They '
        "should send real batches. I rewrite the test file with a small builder and add the torn case.",
        write(
            "tests/test_uplink.py",
            "from datetime import UTC, datetime, timedelta\n\n"
            "import pytest\n\n"
            "from tidepost.backoff import Backoff\n"
            "from tidepost.codec import encode\n"
            "from tidepost.readings import Reading\n"
            "from tidepost.spool import Spool\n"
            "from tidepost.uplink import LinkDownError, Uplink\n\n"
            "ONE_TRY = Backoff(max_tries=1)\n"
            "START = datetime(2024, 11, 1, tzinfo=UTC)\n"
            'ONE, TWO, THREE = (encode([Reading("KEL", START + timedelta(minutes=n), 5.0)]) for n in range(3))\n\n\n'
            "def spool_with(tmp_path, *batches):\n"
            "    spool = Spool(tmp_path)\n"
            "    for raw in batches:\n"
            "        spool.put(raw)\n"
            "    return spool\n\n\n"
            "def test_what_waits_is_sent_in_order(tmp_path):\n"
            "    sent = []\n"
            "    spool = spool_with(tmp_path, ONE, TWO)\n"
            "    assert Uplink(lambda raw: sent.append(raw) or 200, spool, ONE_TRY).flush() == 2\n"
            "    assert sent == [ONE, TWO]\n"
            "    assert spool.pending() == []\n\n\n"
            "def test_a_link_that_dies_half_way_does_not_send_the_first_half_again(tmp_path):\n"
            "    spool = spool_with(tmp_path, ONE, TWO, THREE)\n"
            "    answers = iter([200, 200, 503])\n"
            "    with pytest.raises(LinkDownError):\n"
            "        Uplink(lambda _: next(answers), spool, ONE_TRY).flush()\n"
            '    assert spool.pending() == ["00000003.batch"]\n\n\n'
            "def test_a_batch_is_tried_again_after_each_pause(tmp_path):\n"
            "    answers = iter([503, 0, 200])\n"
            "    slept = []\n"
            "    spool = spool_with(tmp_path, ONE)\n"
            "    uplink = Uplink(lambda _: next(answers), spool, Backoff(chance=lambda: 0.0), slept.append)\n"
            "    assert uplink.flush() == 1\n"
            "    assert slept == [2.0, 4.0]\n\n\n"
            "def test_a_dead_link_keeps_what_waits(tmp_path):\n"
            "    spool = spool_with(tmp_path, ONE)\n"
            '    with pytest.raises(LinkDownError, match=r"gave up on 00000001\\.batch after 1 tries"):\n'
            "        Uplink(lambda _: 503, spool, ONE_TRY).flush()\n"
            '    assert spool.pending() == ["00000001.batch"]\n\n\n'
            "def test_a_torn_batch_is_set_aside_and_the_rest_goes_out(tmp_path):\n"
            "    sent = []\n"
            "    spool = spool_with(tmp_path, ONE[:-10], TWO)\n"
            "    assert Uplink(lambda raw: sent.append(raw) or 200, spool, ONE_TRY).flush() == 1\n"
            "    assert sent == [TWO]\n"
            '    assert (tmp_path / "bad" / "00000001.batch").read_bytes() == ONE[:-10]\n',
        ),
        patch(
            "tests/test_spool.py",
            "def test_a_full_spool_says_so(tmp_path):",
            "def test_a_draft_that_a_crash_left_is_cleared_away(tmp_path):\n"
            '    (tmp_path / "00000007.tmp").write_bytes(b"half")\n'
            "    assert Spool(tmp_path).pending() == []\n"
            "    assert list(tmp_path.iterdir()) == []\n\n\n"
            "def test_a_full_spool_says_so(tmp_path):",
        ),
        sh("python -m pytest"),
    )
    s.saw("46 passed")
    s.do(
        "The trial from before, once more, against the new code.",
        sh(
            "ulimit -f 2; python - <<'END'\n"
            "from pathlib import Path\n"
            "from tidepost.spool import Spool\n"
            "spool = Spool(Path('var/try-spool'))\n"
            "try:\n"
            "    spool.put(b'x' * 4096)\n"
            "except OSError as error:\n"
            "    print('put raised:', error)\n"
            "print('pending:', spool.pending(), 'files:', list(spool.directory.iterdir()))\n"
            "END\n"
            "rm -r var/try-spool"
        ),
        sh("git add -A && git commit -qm 'Spool batches whole and set torn ones aside' && git show --stat --format=%s"),
    )
    s.saw("pending: [] files: []", "4 files changed")
    s.say(
        "Both are in, one commit, 46 passed:\n\n"
        "- `Spool.put` writes `NNNNNNNN.tmp`, fsyncs and renames. With the disk full nothing is left behind (same trial as "
        "before: no file at all). Drafts of a crash are removed when the spool is opened.\n"
        "- `Uplink.flush` decodes each batch first. A torn one is moved to `var/spool/bad/` under its own name, logged as an "
        "error, and the rest goes out. Nothing is deleted.\n\n"
        "Not done: when the disk is full the relay process still ends with the `OSError`, and the readings it held are lost. "
        "Say so if you want it to wait instead."
    )


def comma(s: Scribe) -> None:
    s.user(
        "Noch etwas, ich schreibe kurz auf Deutsch, weil ich gerade mit Wilmar telefoniere: der neue Pegel dort liefert "
        "Werte mit Dezimalkomma, z. B. `WIL|2024-11-15T00:00:00Z|3,412|m`. Bitte beides annehmen, Punkt und Komma. Aber "
        "`3.412,5` muss abgelehnt werden, da weiß niemand, was gemeint ist."
    )
    s.do(
        "Ich sehe mir zuerst an, was heute mit so einer Zeile passiert.",
        read("tidepost/readings.py", 36, 25),
        sh(
            "printf 'KEL|2024-11-15T00:00:00Z|5.0|m\\nWIL|2024-11-15T00:00:00Z|3,412|m\\n' > var/komma.txt; "
            "python -m tidepost run var/komma.txt; rm var/komma.txt",
        ),
    )
    s.saw("ValueError: could not convert string to float: '3,412'")
    s.do(
        "Das ist schlimmer als eine Ablehnung: `float()` wirft `ValueError`, `Relay.feed` fängt nur `ReadingError`, und der "
        "ganze Lauf bricht ab, auch für die anderen Pegel. Erst der Test.",
        patch(
            "tests/test_readings.py",
            '@pytest.mark.parametrize("line", [',
            '@pytest.mark.parametrize(("level", "metres"), [("3,412", 3.412), ("-0,05", -0.05), ("3", 3.0)])\n'
            "def test_a_decimal_comma_is_as_good_as_a_point(level, metres):\n"
            '    assert parse_line(f"WIL|2024-11-15T00:00:00Z|{level}|m").level_m == metres\n\n\n'
            '@pytest.mark.parametrize("level", ["3.412,5", "3,412.5", "3,4,1", "", "n/a", "nan", "inf"])\n'
            "def test_a_level_that_can_be_read_two_ways_or_not_at_all_is_refused(level):\n"
            '    with pytest.raises(ReadingError, match="bad level"):\n'
            '        parse_line(f"WIL|2024-11-15T00:00:00Z|{level}|m")\n\n\n'
            '@pytest.mark.parametrize("line", [',
        ),
        sh("python -m pytest tests/test_readings.py", fails=True),
    )
    s.saw("9 failed, 9 passed")
    s.do(
        "`nan` und `inf` nimmt `float()` an, ein Pegel darf das nicht: ein strenges Muster ist klarer als `replace`.",
        patch(
            "tidepost/readings.py",
            "    return Reading(station, _time(stamp), round(float(level) * UNITS[unit], 4))\n",
            "    return Reading(station, _time(stamp), round(_number(level) * UNITS[unit], 4))\n\n\n"
            "def _number(level: str) -> float:\n"
            '    """A level with a decimal point or a decimal comma, but never with both."""\n'
            "    if not LEVEL.fullmatch(level):\n"
            '        raise ReadingError(f"bad level {level!r}")\n'
            '    return float(level.replace(",", "."))\n',
        ),
        patch(
            "tidepost/readings.py",
            'UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001}\n',
            'UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001}\nLEVEL = re.compile(r"-?[0-9]+(?:[.,][0-9]+)?")\n',
        ),
        patch("tidepost/readings.py", "from dataclasses import", "import re\nfrom dataclasses import"),
        sh("python -m pytest"),
    )
    s.saw("56 passed")
    s.do(None, sh("git commit -qam 'Read levels with a decimal comma and refuse unclear ones' && git status -sb"))
    s.say(
        "Erledigt. `3,412` und `3.412` sind jetzt gleich viel wert; `3.412,5` und `3,412.5` werden als `bad level` abgelehnt, "
        "ebenso leere Felder, `nan` und `inf`.\n\n"
        "Wichtig: bisher hat *eine* Zeile mit Komma den ganzen Lauf beendet, für alle Pegel. Jetzt wird sie gezählt und "
        "übergangen, wie andere schlechte Zeilen auch. 56 Tests bestanden, ein Commit."
    )
