"""A handoff as HTML: its shape, its links, and nothing that could run."""

from __future__ import annotations

from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.report.handoff import handoff_html


def test_headings_lists_and_numbers_are_kept() -> None:
    html = handoff_html("## Goal\n- bake\n- sell\n\n## Completed actions\n7. RAN oven [terminal m3]\n   (2 more)", {3})
    assert "<h3>Goal</h3>" in html
    assert "<ul>\n<li>bake</li>\n<li>sell</li>\n</ul>" in html
    assert '<ol>\n<li value="7"><span class="verb">RAN</span> oven' in html
    assert '<a class="ref" href="#m3">m3</a>' in html
    assert '<p class="aside">(2 more)</p>' in html


def test_only_messages_that_are_there_are_links() -> None:
    html = handoff_html("- one (m1), nine (m9), a file m1.txt, src/m1/x, m99999999999999999999", {1})
    assert html.count("<a ") == 1


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "## <img src=x onerror=alert(1)>",
        "1. RAN <b>x</b> [<i> m1]",
        "`<svg onload=alert(1)>` **<u>**",
        "- " + "<img src=x> " * 100,
        '" onmouseover="alert(1) m1',
    ],
)
def test_what_tools_said_is_never_markup(text: str) -> None:
    html = handoff_html(text, {1})
    for sign in ("<script", "<img", "<svg", "<b>", "<u>", "<i>"):
        assert sign not in html


@pytest.mark.parametrize(
    "text",
    [
        "src/__init__.py and *args",
        "[here](https://example.org) ![a](b.png) <https://example.org>",
        "javascript:alert(1)",
        "a\\_b &lt; c &amp; d",
        "_one_ *two* ~~three~~",
        "| a | b |",
        "[ref]: /url",
        "---",
    ],
)
def test_what_is_no_mark_of_a_handoff_is_shown_as_it_is_written(text: str) -> None:
    html = handoff_html(text, {1})
    assert html == f"<p>{escape(text, quote=False)}</p>"


def test_a_numbered_list_may_begin_right_below_text_and_at_any_number() -> None:
    html = handoff_html("Done so far:\n12. RAN oven\n13. RAN mixer (m4)\n\n• one more", {4})
    assert "<p>Done so far:</p>" in html
    assert html.count('<li value="1') == 2
    assert "<ul>\n<li>one more</li>\n</ul>" in html


def test_a_long_line_is_folded_and_still_names_its_source() -> None:
    html = handoff_html("1. RAN " + "word " * 200 + "[terminal m1]", {1})
    assert html.count("<details>") == 1
    assert html.index('href="#m1"') < html.index("</summary>")


def test_what_could_not_be_verified_is_marked() -> None:
    assert "<mark" in handoff_html("- port 9999⟨unverified⟩", set())


@given(st.text(alphabet="<>&\"'`*m1#-. \n⟨unverified⟩(a[]_!)\\:/~|\t•", max_size=200))
def test_no_text_opens_an_element_of_its_own(text: str) -> None:
    html = handoff_html(text, {1, 11})
    ours = ("a", "/a", "h3", "/h3", "p", "/p", "ul", "/ul", "ol", "/ol", "li", "/li", "code", "/code", "strong",
            "/strong", "mark", "/mark", "span", "/span", "details", "/details", "summary", "/summary")  # fmt: skip
    for piece in html.split("<")[1:]:
        assert piece.split(">")[0].split(" ")[0] in ours


def test_lines_of_a_result_that_look_like_headings_or_lists_are_shown_as_lines() -> None:
    quoted = "\t# Title\n\t- item\n\t12. step\n"
    text = f'## Completed actions\n1. "Read it." (m1)\n   READ a.md (m2), in part:\n{quoted}2. "Go on." (m3)'
    html = handoff_html(text, {1, 2, 3})
    assert html.count("<h3>") == 1
    assert html.count("<li") == 2
    assert all(f'<p class="aside">{line}</p>' in html for line in ("# Title", "- item", "12. step"))
