import pytest
from tidepost.backoff import Backoff
from tidepost.spool import Spool
from tidepost.uplink import LinkDownError, Uplink

ONE_TRY = Backoff(max_tries=1)


def spool_with(tmp_path, *batches):
    spool = Spool(tmp_path)
    for raw in batches:
        spool.put(raw)
    return spool


def test_what_waits_is_sent_in_order(tmp_path):
    sent = []
    spool = spool_with(tmp_path, b"one", b"two")
    assert Uplink(lambda raw: sent.append(raw) or 200, spool, ONE_TRY).flush() == 2
    assert sent == [b"one", b"two"]
    assert spool.pending() == []


def test_a_dead_link_keeps_what_waits(tmp_path):
    spool = spool_with(tmp_path, b"one")
    with pytest.raises(LinkDownError, match=r"gave up on 00000001\.batch after 1 tries"):
        Uplink(lambda _: 503, spool, ONE_TRY).flush()
    assert spool.pending() == ["00000001.batch"]
