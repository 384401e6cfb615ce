"""The agent in a script: one question, its tools, an answer as JSON. `pip install clew-context`"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from clew.testing import Upstream, UpstreamAnswer, call
from clew.testing.part_reader import running

READ = UpstreamAnswer(calls=(call("read_file", {"path": "prices.txt"}),))
with running(Upstream(READ, UpstreamAnswer("Part 3 costs 111."))) as mock, TemporaryDirectory() as folder:
    Path(folder, "prices.txt").write_text("part 3: 111\n", encoding="utf-8")
    # In a shell: clew chat -p "What does part 3 cost?" --json
    words = [sys.executable, "-m", "clew", "chat", "-p", "What does part 3 cost?", "--json", "--project", folder]
    model = ["--model", "mock-model", "--provider", "custom", "--base-url", mock.base_url]
    home = ["--set", f"store.url={folder}/state.db"]
    done = subprocess.run([*words, *model, *home], capture_output=True, text=True, check=True)
    shown = mock.calls[-1].body["messages"][-1]["content"]

print(json.loads(done.stdout)["answer"])
print("the model read:", next(line.strip() for line in shown.splitlines() if "111" in line))
