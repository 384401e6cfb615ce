"""Make `session.json`, the example session: a few days of work on a small relay daemon.

    python examples/make_session.py

The story is scripted, and everything in it really happens: patches are applied to a copy of the small code base in
`session_source/tidepost`, its tests really run, git really merges. Only paths, times and addresses are replaced.
A claim of the story that does not fit what came out stops the run.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from session_source import chapter_house, chapter_link, chapter_storm  # noqa: E402
from session_source.scribe import Scribe  # noqa: E402
from session_source.weather import leave_behind  # noqa: E402
from session_source.workbench import copied_project, sh  # noqa: E402

# A colleague's branch, to be merged in the course of the story.
BRANCH = r"""
git init -q -b main . && git add -A && git commit -q -m "Relay readings from three gauges"
git checkout -q -b per-station-limits
python - <<'END'
from pathlib import Path
stations = Path("tidepost/stations.py")
text = stations.read_text()
text = text.replace("    highest_m: float\n", "    highest_m: float\n    spike_m: float = 0.5\n")
text = text.replace("-4.97, 1.8, 9.0)", "-4.97, 1.8, 9.0, spike_m=0.8)")
stations.write_text(text)
quality = Path("tidepost/quality.py")
text = quality.read_text()
text = text.replace("SPIKE_M = 0.5\n\n\n", "\n").replace("> SPIKE_M:", "> station.spike_m:")
quality.write_text(text)
tests = Path("tests/test_stations.py")
tests.write_text(tests.read_text() + '''

def test_the_east_basin_may_jump_further_because_of_the_lock():
    assert STATIONS["WIL"].spike_m == 0.8
''')
END
git commit -q -am "Let each station have its own spike limit" && git checkout -q main
"""


def made_session() -> str:
    with tempfile.TemporaryDirectory() as folder:
        bench = copied_project(HERE / "session_source" / "tidepost", Path(folder) / "tidepost")
        bench.run(sh(BRANCH))
        leave_behind(bench.root)
        scribe = Scribe(bench)
        for chapter in (chapter_link, chapter_storm, chapter_house):
            chapter.tell(scribe)
        return json.dumps(scribe.session(), ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    text = made_session()
    (HERE / "session.json").write_text(text)
    messages = json.loads(text)["messages"]
    print(f"session.json: {len(messages)} messages, {len(text):,} characters")
