"""`clew context` on session files as other programs wrote them, where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clew.cli import main

FILES = sorted((Path(__file__).resolve().parents[3] / "shared" / "data" / "session_files").glob("*.jsonl.gz"))


@pytest.mark.skipif(not FILES, reason="the recorded sessions are not part of the project")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_real_session_is_shown_with_the_figure_its_provider_reported(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["context", str(file), "--json"], {"CLEW_HOME": str(tmp_path)}) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tokens"] == report["framing"] + sum(share["tokens"] for share in report["shares"])
    assert report["reported"]["prompt_tokens"] > 0
    assert report["cost_usd"]["uncached"] > 0
