"""Hosted conversations: a bot that keeps no history, over plain HTTP. `pip install clew-context`"""

import json
from urllib.request import Request, urlopen

from clew.testing import Upstream, UpstreamAnswer
from clew.testing.gateway import serving
from clew.testing.part_reader import part, running
from clew.testing.upstream import ReceivedRequest


def call(path: str, body: dict | None = None) -> dict:
    headers = {"x-clew-token": gateway.token, "Content-Type": "application/json"}  # or, with keys: Authorization
    sent = None if body is None else json.dumps(body).encode()
    with urlopen(Request(f"{gateway.address}/clew/{path}", sent, headers)) as answered:
        return json.load(answered)


def answer(asked: ReceivedRequest) -> UpstreamAnswer:
    return UpstreamAnswer(f"I was shown {len(asked.body['messages'])} messages.")


with running(Upstream(answers=answer)) as mock, serving(mock.origin) as gateway:  # or: clew serve --upstream URL
    id = call("conversations", {"model": "mock-model", "system": "You read projects."})["id"]
    for number in range(20):
        reply = call(f"conversations/{id}/messages", {"content": f"{part(number)}\nWhat is value_{number}?"})
    print("after 20 questions:", reply["content"])
    hit = call(f"search?q=value_3&conversation={id}")["hits"][0]
    print("found:", hit["snippet"].splitlines()[0])
