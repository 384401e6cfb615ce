"""The page in a real browser, where there is one: no complaint on the console, and a message opens."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.cli import main
from clew.messages import Message
from clew.testing import assistant, call, system, tool, user

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-quic --disable-dev-shm-usage --enable-logging=stderr --v=0"
).split()
EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> ünïcode 修复"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")]


def porter(rounds: int = 20) -> list[Message]:
    messages = [system("You carry letters."), user(f"Carry the letters. {EVIL}")]
    for number in range(rounds):
        messages.append(assistant("Next.", [call("carry", {"letter": f"letter_{number}"}, id=f"p{number}")]))
        messages.append(tool(f"p{number}", f"letter_{number} is on floor {number}. {EVIL}\n" + "step\n" * 250))
    return [*messages, assistant("Carried."), user("Done?")]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    (folder / "letters.json").write_text(json.dumps(porter()), encoding="utf-8")
    words = [str(folder / "letters.json"), "--to", "2500", "--report", str(folder / "page.html")]
    assert main(["compress", *words, "--output", str(folder / "o.json")], {"CLEW_HOME": str(folder / "home")}) == 0
    return folder / "page.html"


def opened(page: Path, fragment: str = "") -> tuple[str, list[str]]:
    """The page as the browser has it once its script has run, and what its console said."""
    profile = page.parent / f"profile-{fragment or 'none'}"
    words = [str(BROWSER), *FLAGS, f"--user-data-dir={profile}", "--dump-dom", f"{page.as_uri()}#{fragment}"]
    done = subprocess.run(words, capture_output=True, timeout=120)
    said = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if "CONSOLE" in line]
    return done.stdout.decode("utf-8", "replace"), said


def test_the_page_opens_without_a_complaint_and_draws_every_message(page: Path) -> None:
    dom, said = opened(page)
    assert said == []
    assert len(re.findall(r'<button type="button" class="cell [^"]*"', dom)) == len(porter())
    assert "<title>Clew: " in dom
    assert re.search(r'<aside id="message" hidden=""', dom)


def test_the_address_of_a_message_shows_its_text_and_runs_none_of_it(page: Path) -> None:
    dom, said = opened(page, "m4")
    assert said == []
    assert not re.search(r'<aside id="message" hidden=""', dom)
    assert "m4 · result of carry" in dom
    body = dom[dom.index('id="message-body"') :]
    assert "letter_1 is on floor 1. &lt;/script&gt;&lt;script&gt;" in body
    assert "ünïcode 修复" in body
    assert "<title>Clew: " in dom
    assert "<title>owned" not in dom
    assert re.search(r'class="cell summarised tool [^"]*current"', dom)


def test_a_message_names_the_lines_of_the_handoff_that_came_from_it(page: Path) -> None:
    written = page.read_text(encoding="utf-8")
    lines = re.findall(r'<div class="line sub[^"]*">(.*?)</div>', written)
    line = next(line for line in lines if line.count("href=") == 1)
    (number,) = re.findall('href="#(m[0-9]+)"', line)
    dom, said = opened(page, number)
    assert said == []
    shown = re.findall(r'<button type="button" class="mention">(.*?)</button>', dom)
    assert re.sub("<[^>]*>", "", line)[:200].strip() in [text[:200].strip() for text in shown]


def test_an_address_that_leads_nowhere_shows_the_page(page: Path) -> None:
    dom, said = opened(page, "m99999")
    assert said == []
    assert re.search(r'<aside id="message" hidden=""', dom)
