from tidepost.batch import Batcher


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_a_batch_is_full_at_its_size():
    batcher = Batcher(2, 900, Clock())
    assert batcher.add("a") is None
    assert batcher.add("b") == ["a", "b"]
    assert batcher.held == []


def test_a_batch_is_due_by_age():
    clock = Clock()
    batcher = Batcher(60, 900, clock)
    batcher.add("a")
    assert not batcher.is_due()
    clock.now = 900
    assert batcher.is_due()
    assert batcher.take() == ["a"]


def test_an_empty_batch_is_never_due():
    assert not Batcher(1, 1, Clock()).is_due()
