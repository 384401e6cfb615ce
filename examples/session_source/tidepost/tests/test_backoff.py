from tidepost.backoff import Backoff


def test_each_pause_is_twice_the_one_before():
    assert list(Backoff(max_tries=5, first_delay_s=2.0).delays()) == [2.0, 4.0, 8.0, 16.0]


def test_one_try_has_no_pause():
    assert list(Backoff(max_tries=1).delays()) == []
