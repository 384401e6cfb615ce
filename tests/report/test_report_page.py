"""The page that `clew compress --report` writes: whole, self-contained, bounded, and safe whatever a tool said."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from clew.cli import main
from clew.messages import Message
from clew.testing import assistant, call, system, tool, user
from tests.support.history import synthetic_history

pytestmark = pytest.mark.slow

VOID = {"meta", "br", "link", "img", "input", "hr", "circle", "path", "rect"}
HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<!--<script> {{rows}} ${alert(1)} \u2028 ]]> &lt; '\" \x00 \ud83d"
)


def gardener(said: str = "", rounds: int = 24) -> list[Message]:
    messages = [system("You keep the garden."), user(f"Water the beds. Never cut the oak. {said}")]
    for number in range(rounds):
        messages.append(assistant(said or None, [call("water", {"bed": f"bed_{number}"}, id=f"g{number}")]))
        messages.append(tool(f"g{number}", f"bed_{number} took {2000 + number} ml {said}\n" + "soil wet\n" * 150))
    return [*messages, assistant(f"Watered. {said}"), user(f"Which bed next? {said}")]


def page_of(folder: Path, messages: Any, *words: str) -> str:
    file, page = folder / "garden.json", folder / "page.html"
    file.write_text(json.dumps(messages), encoding="utf-8")
    words = (*words, "--report", str(page), "--output", str(folder / "short.json"))
    assert main(["compress", str(file), *words], {"CLEW_HOME": str(folder / "home")}) == 0
    return page.read_text(encoding="utf-8")


def rows_in(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="rows">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])  # type: ignore[no-any-return]


class Outline(HTMLParser):
    """The elements of a page, checked for their ends."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def test_the_page_is_whole_and_has_every_part(tmp_path: Path) -> None:
    page = page_of(tmp_path, gardener(), "--to", "2500", "--model", "gpt-5")
    found = outline(page)
    for words in ("What fills the request", "Every message", "The handoff", "What is no longer there", "% less"):
        assert words in page
    assert "per request, uncached" in page
    assert "Never cut the oak." in page
    for heading in ("Active task", "Completed actions"):
        assert f"<h3>{heading}</h3>" in page
    assert len([tag for tag, _ in found.tags if tag == "script"]) == 2


def test_it_loads_nothing_and_says_so_to_the_browser(tmp_path: Path) -> None:
    page = page_of(tmp_path, gardener(), "--to", "2500")
    for _, attributes in outline(page).tags:
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "action", "data", "srcset"):
            assert (attributes.get(name) or "#").startswith("#")
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    assert "default-src 'none'" in page


def test_the_policy_allows_exactly_the_script_and_the_style_of_the_page(tmp_path: Path) -> None:
    page = page_of(tmp_path, gardener(HOSTILE), "--to", "2500")
    for opening, kind in (("<script>", "script"), ("<style>", "style")):
        content = page.split(opening, 1)[1].split(f"</{kind}>", 1)[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in page
    assert "unsafe" not in page.split("</head>")[0].split("<style>")[0]


def test_text_of_tools_cannot_leave_its_place(tmp_path: Path) -> None:
    page = page_of(tmp_path, gardener(HOSTILE), "--to", "2500")
    found = outline(page)
    assert not [tag for tag, _ in found.tags if tag in ("img", "iframe", "object", "embed", "base", "form", "a/")]
    assert len([tag for tag, _ in found.tags if tag == "script"]) == 2
    assert page.count("</script>") == 2
    shown = rows_in(page)["rows"][1][6]
    assert "</script><script>document.title='owned'</script>" in shown
    assert "{{rows}}" in shown


def test_the_rows_hold_every_message_as_it_is(tmp_path: Path) -> None:
    history = gardener()
    table = rows_in(page_of(tmp_path, history, "--to", "4000"))
    assert len(table["rows"]) == len(history)
    for number, (row, message) in enumerate(zip(table["rows"], history, strict=True), -1):
        assert row[0] == (number if number >= 0 else None)
        assert table["roles"][row[1]] == message["role"]
        assert row[3] > 0
        text = message.get("content") or ""
        assert isinstance(text, str)
        assert row[6].startswith(text)
        assert row[7] == 0
    names = [table["fates"][row[5]] for row in table["rows"]]
    assert {"kept", "pruned", "summarised"} == set(names)
    shortened = [row for row in table["rows"] if table["fates"][row[5]] == "pruned"]
    assert all(len(row) == 10 and len(row[8]) < len(row[6]) for row in shortened)


def test_every_reference_leads_to_a_message(tmp_path: Path) -> None:
    page = page_of(tmp_path, gardener(), "--to", "2500")
    numbers = {row[0] for row in rows_in(page)["rows"]}
    links = re.findall(r'<a class="ref" href="#m(\d+)">', page)
    assert len(links) > 5
    assert {int(number) for number in links} <= numbers


def test_a_page_of_many_messages_stays_small_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    page = page_of(tmp_path, synthetic_history(3_000), "--window", "32k")
    assert len(page.encode()) < 3_000_000
    assert re.search(r"To keep the page small, [\d,]+ of 3,00\d messages are shown only in part\.", page)
    texts = [row[6] for row in rows_in(page)["rows"]]
    assert all(texts)
    assert sum(map(len, texts)) <= 1_300_000


def test_a_conversation_that_was_left_alone_has_a_page_too(tmp_path: Path) -> None:
    page = page_of(tmp_path, gardener(rounds=1), "--to", "9000")
    outline(page)
    assert "unchanged" in page
    assert "there is no handoff" in page
    assert "What is no longer there" not in page


def test_an_earlier_handoff_is_a_cell_of_its_own_or_part_of_one(tmp_path: Path) -> None:
    page_of(tmp_path, gardener(rounds=60), "--to", "5000")
    once = json.loads((tmp_path / "short.json").read_text())
    page = page_of(tmp_path, once, "--to", "2500")
    outline(page)
    assert len(rows_in(page)["rows"]) == len(once)
    assert "Please note" in page  # folding twice costs accuracy, and says so


@pytest.mark.parametrize("kind", ["kept", "pruned", "summarised"])
def test_what_became_of_a_message_is_not_told_by_colour_alone(tmp_path: Path, kind: str) -> None:
    page = page_of(tmp_path, gardener(), "--to", "4000")
    words = {"kept": "kept", "pruned": "shortened", "summarised": "folded into the handoff"}[kind]
    assert re.search(rf'data-fate="{kind}"[^<]*<span class="cell {kind}" aria-hidden="true"></span>{words}', page)
    assert 'cell.setAttribute("aria-label"' in page


def test_secrets_are_not_on_the_page_unless_it_says_so(tmp_path: Path) -> None:
    secret = "Tr0ub4dor-fake-3"
    messages = gardener(f"the root password is {secret}")
    page = page_of(tmp_path, messages, "--to", "2500")
    assert secret not in page
    assert "[REDACTED:password]" in page
    assert "not redacted" not in page
    page = page_of(tmp_path, messages, "--to", "2500", "--unredacted")
    assert secret in page
    assert "not redacted" in page


def test_the_page_and_the_conversation_are_files_of_their_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old", encoding="utf-8")
    (tmp_path / "page.html").chmod(0o644)
    page_of(tmp_path, gardener(), "--to", "2500")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("page.html", "short.json")]
    assert modes == [0o600, 0o600]
