"""Gateway with the Anthropic SDK, streamed; folded messages can be searched. `pip install clew-context anthropic`"""

import re

from anthropic import Anthropic

from clew.testing.gateway import serving
from clew.testing.part_reader import part, running

messages = []
with running() as mock, serving(mock.origin) as gateway:  # in a shell: clew serve --upstream https://api.anthropic.com
    client = Anthropic(base_url=gateway.address, api_key="none")
    for number in range(30):
        messages.append({"role": "user", "content": part(number)})
        with client.messages.stream(model="mock-model", max_tokens=100, messages=messages) as stream:
            said = "".join(stream.text_stream)
        messages.append({"role": "assistant", "content": said or "I read it."})
    client.close()
    sent = [len(call.body["messages"]) for call in mock.calls]
    found = gateway.clew("search", "value_3", "--limit", "1")

print(f"the program sent {len(messages) - 1} messages at last, the model was shown {sent[-1]}")
print("found:", *re.findall(r"value_3 = \d+", found)[:1])
