"""A handoff as HTML: its shape, its links, and nothing that could run."""

from __future__ import annotations

import re
from html import escape, unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.handoff import COMPLETED, HEADINGS, Entry, Handoff
from clew.report.page import handoff_html

RULES = "Constraints and preferences"


def html_of(text: str, known: set[int] | None = None, *, heading: str = RULES) -> str:
    """The HTML of a handoff with one entry."""
    return handoff_html(Handoff({heading: (Entry(text),)}), known or set())


def lines_in(html: str) -> list[str]:
    """The text of each line, as a reader sees it."""
    found = re.findall(r'<(div|details) class="line[^"]*">(.*?)</\1>', html)
    return [unescape(re.sub("<[^>]*>", "", line)) for _, line in found]


def test_entries_are_listed_below_their_heading_with_their_lines() -> None:
    actions = Entry('"Bake."', (1,), (Entry("RAN oven: hot", (3,)), Entry('"It is hot."', (4,))))
    handoff = Handoff({RULES: (Entry("rye first"), Entry("sell all")), COMPLETED: (actions, Entry("2 more", (5, 9)))})
    html = handoff_html(handoff, set(range(10)))
    assert re.findall("<h3>(.*?)</h3>", html) == [RULES, COMPLETED]
    rules, done = html.split(f"<h3>{COMPLETED}</h3>")
    assert (rules.count("<ul>"), rules.count("<li>")) == (1, 2)
    assert (done.count("<ol>"), done.count("<li>")) == (1, 2)
    assert lines_in(html) == [
        "rye first", "sell all", '"Bake." m1', "RAN oven: hot m3", '"It is hot." m4', "2 more m5-m9"
    ]  # fmt: skip


def test_a_line_shows_its_verb_and_its_source() -> None:
    html = handoff_html(Handoff({COMPLETED: (Entry("RAN make", (2, 7)),)}), {2, 7})
    assert re.findall('<span class="verb">(.*?)</span>', html) == ["RAN"]
    (source,) = re.findall('<span class="source">(.*?)</span>', html)
    assert re.findall('href="#(.*?)"', source) == ["m2", "m7"]
    assert "verb" not in html_of("Ran make, then READ it")


def test_words_of_people_and_of_the_agent_are_told_from_actions() -> None:
    assert "quote" in html_of('"Never at night."')
    assert "quote" not in html_of('RAN echo "night"')


def test_only_messages_that_are_there_are_links() -> None:
    html = html_of("one (m1), nine (m9), a file m1.txt, src/m1/x, m99999999999999999999", {1})
    assert html.count("<a ") == 1
    assert handoff_html(Handoff({COMPLETED: (Entry("one", (9,)),)}), {1}).count("<a ") == 0


def test_headings_of_a_model_are_shown_behind_the_known_ones() -> None:
    html = handoff_html(Handoff.of_text("Intro.\n## Recipes\n- rye\n## Goal\n- bread"), set())
    assert re.findall("<h3>(.*?)</h3>", html) == ["Goal", "Recipes"]
    assert lines_in(html) == ["Intro.", "bread", "rye"]


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "RAN <b>x</b> [<i> m1]",
        "`<svg onload=alert(1)>` **<u>**",
        "<img src=x> " * 100,
        '" onmouseover="alert(1) m1',
    ],
)
def test_what_tools_said_is_never_markup(text: str) -> None:
    for html in (html_of(text, {1}), html_of("x", heading=text)):
        for sign in ("<script", "<img", "<svg", "<b>", "<u>", "<i>"):
            assert sign not in html


@pytest.mark.parametrize(
    "text",
    [
        "src/__init__.py and *args, **kwargs, 2**3 and 4**5",
        "[here](https://example.org) ![a](b.png) <https://example.org>",
        "javascript:alert(1)",
        "a\\_b &lt; c &amp; d",
        "_one_ *two* ~~three~~",
        "| a | b |",
        "# no heading",
        "an open ` and an open ** here",
    ],
)
def test_what_is_no_mark_of_a_handoff_is_shown_as_it_is_written(text: str) -> None:
    assert f">{escape(text, quote=False)}</div>" in html_of(text, {1})


def test_code_and_bold_are_marked() -> None:
    html = html_of("**Why: `flush` failed** in ``a`b`` (m1)", {1})
    assert "<code>flush</code>" in html
    assert "<code>a`b</code>" in html
    assert html.count("<strong>") == 2
    assert "*" not in html


def test_a_long_line_is_folded_and_still_names_its_source() -> None:
    text = "RAN " + "word `code` " * 100
    html = handoff_html(Handoff({COMPLETED: (Entry(text, (1,)),)}), {1})
    assert html.count("<details") == 1
    assert html.index('href="#m1"') < html.index("</summary>")
    assert lines_in(html)[0].count("word") == 100


def test_what_could_not_be_verified_is_marked() -> None:
    assert "<mark" in html_of("port 9999⟨unverified⟩")


MARKS = st.text(alphabet="<>&\"'`*m1#-. \n⟨unverified⟩(a[]_!)\\:/~|\t•", max_size=200)


@given(st.dictionaries(st.sampled_from(HEADINGS) | MARKS, st.lists(MARKS, min_size=1), max_size=3), MARKS)
def test_no_text_opens_an_element_of_its_own(sections: dict[str, list[str]], line: str) -> None:
    entries = {heading: [Entry(text, (1,), (Entry(line),)) for text in texts] for heading, texts in sections.items()}
    html = handoff_html(Handoff(entries), {1, 11})
    ours = ("a", "/a", "h3", "/h3", "div", "/div", "ul", "/ul", "ol", "/ol", "li", "/li", "code", "/code", "strong",
            "/strong", "mark", "/mark", "span", "/span", "details", "/details", "summary", "/summary")  # fmt: skip
    for piece in html.split("<")[1:]:
        assert piece.split(">")[0].split(" ")[0] in ours
