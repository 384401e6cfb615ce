"""Golden files: four small made-up conversations, and the built-in handoff of each in `golden/`.

After an intended change, write them again and read the difference as the assistant that continues from them:

    CLEW_GOLDEN=1 python -m pytest -n 0 tests/handoff/test_golden.py && git diff tests/handoff/golden
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.handoff import Handoff, write_handoff
from clew.messages import Message, text_of
from clew.testing import assistant, call, tool, user
from clew.tokens import counter_for
from tests.support.summaries import summary_input_of

GOLDEN = Path(__file__).parent / "golden"
BUDGET = 1_200


def did(name: str, arguments: dict[str, object], result: str, id: str, said: str | None = None) -> list[Message]:
    return [assistant(said, [call(name, arguments, id)]), tool(id, result)]


def ran(command: str, result: str, id: str, said: str | None = None) -> list[Message]:
    return did("terminal", {"command": command}, result, id, said)


UPLOADER = """class Uploader:
    DEFAULT_CHUNK = 5_242_880
    TIMEOUT = (3.05, 27)

    def put(self, path, bucket):
        for part in self.parts(path, self.DEFAULT_CHUNK):
            requests.put(self.url(bucket, part), timeout=self.TIMEOUT)
"""

CODING = [
    user("Port the uploader to asyncio, keep behaviour and API. Never touch prod.db."),
    *did("read_file", {"path": "src/uploader.py"}, UPLOADER, "a", "Let me look at the uploader first."),
    *did(
        "patch",
        {"path": "src/uploader.py", "old_string": "requests.put(", "new_string": "await self.client.put("},
        "ok",
        "b",
    ),
    *did("write_file", {"path": "src/retry.py", "content": "DELAYS = (0.5, 1, 2, 4, 8)\n"}, "ok", "c"),
    *ran(
        "cd /srv/app && pytest -q",
        "E   RuntimeError: This event loop is already running\nFAILED tests/test_uploader.py::test_put\n"
        "1 failed, 15 passed in 0.8s\n[exit 1]",
        "d",
    ),
    *did(
        "patch",
        {"path": "tests/test_uploader.py", "old_string": "run(put())", "new_string": "await put()"},
        "ok",
        "e",
        "The test itself starts a second loop.",
    ),
    *ran("cd /srv/app && pytest -q", "16 passed in 0.9s\n[exit 0]", "f"),
    *ran("git commit -am 'Port the uploader'", "[feat/async 9f3c2ab] Port the uploader\n 3 files changed\n", "g"),
    assistant(
        "The uploader is ported: `AsyncUploader.put()` keeps its signature, and httpx replaces requests.\n\n"
        "## Details\nThe retry now waits 0.5 s, doubling to 8 s, which matches the gateway's Retry-After. "
        "All 16 tests pass."
    ),
    user("<system-reminder>\nThe todo list is empty.\n</system-reminder>\nWhich bucket do we use in production?"),
    *ran("grep -n bucket config/prod.toml", '14:bucket = "acme-eu-west-1"\n', "h"),
    assistant("acme-eu-west-1, from config/prod.toml, line 14."),
    user("Also add jitter to the retry, and don't touch the public API."),
    *did("read_file", {"path": "src/retry.py"}, "DELAYS = (0.5, 1, 2, 4, 8)\n", "i"),
    *ran("make deploy", "fatal: could not resolve host registry.acme.example\n[exit 128]", "j"),
    assistant("I will put the jitter into src/retry.py; the deploy has to wait for the registry."),
]

TRIP = [
    user("I want to plan a trip to Lisbon with my sister Ana and her son Tiago (6), in the first week of October."),
    assistant(
        "Lovely! For the first week of October I would look at flights from Vienna on Friday the 3rd. "
        "TAP flies direct as TP1275 at 11:35 and arrives at 14:20. Shall I plan with five nights?"
    ),
    user("Yes. We fly on October 3 and back on October 8 with TP1276. Ana is vegetarian."),
    assistant(
        "Noted: TP1275 on October 3 and TP1276 back on October 8, five nights for three people. "
        "For Tiago the Oceanário is the best half day; tickets are 25 euros for adults and 15 for children. "
        "For dinner Ana will like Ao 26 in Chiado, which is all vegan."
    ),
    user("We booked the Hotel Borges, confirmation LX-48213. Which day should we go to Sintra?"),
    assistant(
        "Go on Monday, October 6: the palaces are open, and the weekend crowds are gone. "
        "Take the train from Rossio at 8:41, it runs 40 minutes. Pena Palace needs a timed ticket."
    ),
    user("Please write us a plan, day by day."),
]

CHINESE = [
    user("请把上传模块改成异步。不要改数据库结构。"),
    *did("read_file", {"path": "src/uploader.py"}, "class Uploader:\n    CHUNK = 5_242_880\n", "a"),
    *did("patch", {"path": "src/uploader.py", "old_string": "def put", "new_string": "async def put"}, "ok", "b"),
    *ran("pytest -q", "14 passed in 0.2s\n[exit 0]", "c"),
    assistant(
        "上传模块已经改成异步，接口保持不变，全部测试都通过了。"
        "决定用 httpx，因为 requests 没有异步客户端，而且超时设置也更细。"
    ),
    user("生产环境用的是哪个存储桶？"),
    *ran("grep bucket config/prod.toml", 'bucket = "acme-cn-north-1"\n', "d"),
    assistant("生产环境用的存储桶是 acme-cn-north-1，写在 config/prod.toml 里，端口是 8443，由运维组管理。"),
    user("重试要加抖动，最多等八秒。"),
]

CHANGE_OF_MIND = [
    user("Speed up the nightly import; it takes four hours."),
    *ran("python profile_import.py", "parse 0:12\nwrite_rows 3:41\nindex 0:09\n", "a"),
    assistant(
        "Nearly all of the time goes into write_rows, which commits after each row. I see three ways:\n"
        "1. Commit every 5,000 rows\n2. Use COPY instead of INSERT\n3. Write to four partitions in parallel\n"
        "Which one do you want?"
    ),
    user("2"),
    *did("patch", {"path": "importer/write.py", "old_string": "INSERT", "new_string": "COPY"}, "ok", "b"),
    *ran("python profile_import.py", "parse 0:12\nwrite_rows 0:19\nindex 0:09\n", "c"),
    assistant("With COPY the import takes 40 minutes, of which write_rows takes 19. importer/write.py is changed."),
    user("Now also move the import to the new scheduler."),
    assistant("I read the scheduler's guide: jobs are declared in jobs.yaml, and each needs an owner."),
    user("Never mind the scheduler, we stay with cron. Rather write a test for the COPY path."),
    *did("write_file", {"path": "tests/test_copy.py", "content": "def test_copy_writes_all_rows(): ...\n"}, "ok", "d"),
    assistant("tests/test_copy.py has its first test; it does not yet check that bad rows are reported."),
]

CONVERSATIONS = {"coding": CODING, "trip": TRIP, "chinese": CHINESE, "change_of_mind": CHANGE_OF_MIND}


def handoff_of(messages: list[Message]) -> str:
    at = max(number for number, message in enumerate(messages) if message["role"] == "user")
    source = summary_input_of(messages, task=text_of(messages[at]), task_number=at)
    return write_handoff(source, BUDGET, counter_for(None).text).render() + "\n"


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_handoff_is_the_one_in_the_file(name: str) -> None:
    file = GOLDEN / f"{name}.md"
    written = handoff_of(CONVERSATIONS[name])
    if os.environ.get("CLEW_GOLDEN"):
        file.write_text(written, encoding="utf-8")
    assert written == file.read_text(encoding="utf-8")
    assert Handoff.of_text(written).render() + "\n" == written
