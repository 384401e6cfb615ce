from pathlib import Path

from tidepost.codec import decode
from tidepost.relay import Relay
from tidepost.spool import Spool

GOLDEN = Path("fixtures/golden")


def relayed(tmp_path, lines, batch_size=60):
    spool = Spool(tmp_path)
    relay = Relay(spool, batch_size, 900, lambda: 0.0)
    relay.feed(lines)
    relay.close()
    return relay, [reading for name in spool.pending() for reading in decode(spool.read(name))]


def test_the_golden_day_comes_out_as_the_office_signed_it(tmp_path):
    lines = (GOLDEN / "gauge-2024-11-01.txt").read_text().splitlines()
    relay = Relay(Spool(tmp_path), 60, 900, lambda: 0.0)
    relay.feed(lines)
    relay.close()
    raw = relay.spool.read("00000001.batch")
    assert raw.partition(b"\n")[2] == (GOLDEN / "2024-11-01.jsonl").read_bytes()


def test_a_repeated_line_is_relayed_once(tmp_path):
    _, readings = relayed(tmp_path, ["KEL|2024-11-01T00:00:00Z|5.0|m"] * 3)
    assert len(readings) == 1


def test_a_bad_line_is_counted_and_passed_over(tmp_path):
    relay, readings = relayed(tmp_path, ["garbage", "KEL|2024-11-01T00:00:00Z|5.0|m"])
    assert relay.rejected == 1
    assert len(readings) == 1


def test_batches_are_as_large_as_configured(tmp_path):
    lines = [f"KEL|2024-11-01T00:{minute:02d}:00Z|5.0|m" for minute in range(5)]
    relay, readings = relayed(tmp_path, lines, batch_size=2)
    assert len(relay.spool.pending()) == 3
    assert len(readings) == 5
