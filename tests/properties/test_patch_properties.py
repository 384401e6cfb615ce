"""What holds for every edit of every text."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from clew.agent.files.diffs import missed_passage_report
from clew.agent.files.file_types import decode_file
from clew.agent.files.patching import NormalizedText, PassageMatch, find_passage

words = st.text(alphabet="ab \t{}é", max_size=6)
texts = st.lists(words, max_size=12).map("\n".join)
line_ends = st.sampled_from(["\n", "\r\n"])


@given(texts, st.data(), texts)
def test_an_exact_edit_is_what_replacing_once_is(text: str, data: st.DataObject, new: str) -> None:
    start = data.draw(st.integers(0, len(text)))
    old = text[start : data.draw(st.integers(start, len(text)))]
    assume(old)
    found = find_passage(NormalizedText.of(text), old, new)
    if isinstance(found, PassageMatch):
        assert found.how == "exact"
        assert NormalizedText.of(text).with_replacements(found.replacements) == text.replace(old, new, 1)
    else:
        assert found is not None
        assert len(found.lines) > 1
        everywhere = find_passage(NormalizedText.of(text), old, new, everywhere=True)
        assert isinstance(everywhere, PassageMatch)
        assert NormalizedText.of(text).with_replacements(everywhere.replacements) == text.replace(old, new)


@given(st.lists(words, max_size=8), st.lists(line_ends, min_size=8, max_size=8), texts, texts, st.booleans())
def test_lines_outside_what_was_found_stay_as_they_were(
    lines: list[str], ends: list[str], old: str, new: str, everywhere: bool
) -> None:
    text = "".join(line + end for line, end in zip(lines, ends, strict=False))
    plain = NormalizedText.of(text)
    assume(old)
    found = find_passage(plain, old, new, everywhere=everywhere)
    if not isinstance(found, PassageMatch):
        return
    after = plain.with_replacements(found.replacements)
    first, last = found.replacements[0], found.replacements[-1]
    before_lines = text.splitlines(keepends=True)[: plain.line_at(first.start) - 1]
    assert after.startswith("".join(before_lines))
    rest = NormalizedText.of(text).text[last.end :]
    assert NormalizedText.of(after).text.endswith(rest)
    untouched = text.splitlines(keepends=True)[plain.text.count("\n", 0, last.end) + 1 :]
    assert after.endswith("".join(untouched))


@given(st.lists(st.sampled_from(["if a:", "b = 1", "", "else:", "c"]), min_size=1, max_size=6), st.data())
def test_a_shifted_passage_is_found_and_keeps_its_shift(lines: list[str], data: st.DataObject) -> None:
    assume(any(lines))
    steps = data.draw(st.lists(st.integers(0, 2), min_size=len(lines), max_size=len(lines)))
    shift = data.draw(st.integers(1, 6))
    written = ["    " * step + line if line else "" for step, line in zip(steps, lines, strict=True)]
    text = "\n".join(["@top", *(" " * shift + line if line else "" for line in written), "@end"])
    old = "\n".join(written)
    found = find_passage(NormalizedText.of(text), old, f"{old}\n{written[-1]}x" if written[-1] else f"{old}x")
    assert found is not None
    # A passage of one line may also stand exactly within the indented line, and "" after the last is any blank line.
    assume(isinstance(found, PassageMatch) and found.how == "indentation" and old.strip("\n") == old)
    assert isinstance(found, PassageMatch)
    after = NormalizedText.of(text).with_replacements(found.replacements)
    kept, added = text.split("\n"), after.split("\n")
    assert added[: len(kept) - 2] == kept[:-2]
    assert added[-1] == "@end"


@given(texts, texts, texts)
def test_a_report_of_a_miss_never_fails(text: str, old: str, new: str) -> None:
    assert "old was not found" in missed_passage_report(text, old, new)


@given(st.binary(max_size=60) | texts.map(str.encode) | texts.map(lambda text: text.encode("utf-16")))
def test_bytes_come_back_as_they_were(content: bytes) -> None:
    file = decode_file(content)
    if file is not None:
        assert file.encode(file.text) == content
        plain = NormalizedText.of(file.text)
        assert plain.with_replacements([]) == file.text


@given(st.lists(words.filter(str.strip), min_size=2, max_size=8, unique_by=lambda line: line.strip()), st.data())
def test_crlf_and_mark_survive_an_edit(lines: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(lines) - 1))
    raw = b"\xef\xbb\xbf" + "\r\n".join([f"<{line}>" for line in lines]).encode()
    file = decode_file(raw)
    assert file is not None
    plain = NormalizedText.of(file.text)
    found = find_passage(plain, f"<{lines[place]}>", "1\n2")
    assert isinstance(found, PassageMatch)
    after = [f"<{line}>" for line in lines]
    after[place] = "1\r\n2"
    assert file.encode(plain.with_replacements(found.replacements)) == b"\xef\xbb\xbf" + "\r\n".join(after).encode()
