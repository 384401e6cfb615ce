import pytest
from tidepost.spool import Spool, SpoolFullError


def test_batches_come_back_in_order(tmp_path):
    spool = Spool(tmp_path)
    names = [spool.put(raw) for raw in (b"one", b"two", b"three")]
    assert spool.pending() == names
    assert spool.read(names[1]) == b"two"


def test_an_acknowledged_batch_is_gone(tmp_path):
    spool = Spool(tmp_path)
    name = spool.put(b"one")
    spool.ack(name)
    spool.ack(name)
    assert spool.pending() == []


def test_numbering_goes_on_after_a_restart(tmp_path):
    Spool(tmp_path).put(b"one")
    assert Spool(tmp_path).put(b"two") == "00000002.batch"


def test_a_full_spool_says_so(tmp_path):
    spool = Spool(tmp_path, max_files=1)
    spool.put(b"one")
    with pytest.raises(SpoolFullError, match="1 batches wait"):
        spool.put(b"two")
