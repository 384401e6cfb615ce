from datetime import UTC, datetime

import pytest
from tidepost.codec import CodecError, decode, encode
from tidepost.readings import Reading

READINGS = [
    Reading("KEL", datetime(2024, 11, 1, tzinfo=UTC), 5.012),
    Reading("HUS", datetime(2024, 11, 1, tzinfo=UTC), 9.4, ("range",)),
]


def test_a_batch_survives_the_way_there_and_back():
    assert decode(encode(READINGS)) == READINGS


def test_a_changed_byte_is_noticed():
    raw = encode(READINGS).replace(b"5.012", b"5.013")
    with pytest.raises(CodecError, match="checksum mismatch"):
        decode(raw)


def test_another_format_is_refused():
    with pytest.raises(CodecError, match="unknown format 'TIDE1'"):
        decode(b"TIDE1 0 00000000\n")
