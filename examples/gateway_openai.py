"""Gateway with the OpenAI SDK: change the base URL, keep the program. `pip install clew-context openai`"""

from itertools import pairwise

from openai import OpenAI

from clew.testing.gateway import serving
from clew.testing.part_reader import part, running

messages = [{"role": "user", "content": "Read the parts that I paste, and keep to TASK-7."}]
with running() as mock, serving(mock.origin) as gateway:  # in a shell: clew serve --upstream https://api.openai.com/v1
    client = OpenAI(base_url=f"{gateway.address}/v1", api_key="none")
    for number in range(30):
        messages.append({"role": "user", "content": part(number)})
        reply = client.chat.completions.create(model="mock-model", messages=messages)
        messages.append({"role": "assistant", "content": reply.choices[0].message.content or "I read it."})
    client.close()
    sent = [len(call.body["messages"]) for call in mock.calls]

print(f"the program sent {len(messages) - 1} messages at last, the model was shown {sent[-1]}")
print(f"never more than {max(sent)}; folded {sum(a > b for a, b in pairwise(sent))} times")
