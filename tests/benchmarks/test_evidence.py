"""The page "How well" and the script that writes its tables fit each other."""

from __future__ import annotations

import re

import evidence


def test_every_table_but_those_of_readers_agents_and_size_is_written_by_the_script() -> None:
    page = evidence.PAGE.read_text(encoding="utf-8")
    written = re.sub(r"<!-- evidence: (\w+) -->.*?<!-- end -->", r"\1", page, flags=re.DOTALL)
    sections = {part.partition("\n")[0]: part for part in written.split("\n## ")}
    tables = {title for title, part in sections.items() if re.search(r"^\|[-: |]+\|$", part, re.MULTILINE)}
    assert tables == {"The exam: can a reader continue?", "Real agents", "Size"}
    assert set(re.findall(r"<!-- evidence: (\w+) -->", page)) == set(evidence.PARTS)


def test_every_table_says_of_how_many_cases_it_is() -> None:
    page = evidence.PAGE.read_text(encoding="utf-8")
    tables = dict(re.findall(r"<!-- evidence: (\w+) -->(.*?)<!-- end -->", page, re.DOTALL))
    assert [name for name, table in tables.items() if not re.search(r"n=|\| n \||\(n\)|best of|questions", table)] == []
