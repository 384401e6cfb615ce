"""The lossless engine: a map of summaries, each of which the model can open again. `pip install clew-context`"""

import clew
from clew.testing.part_reader import part

history = [{"role": "user", "content": "Read every part."}]
with clew.Projection(engine="lcm", context_length=16_000) as view:
    for number in range(80):
        history += [{"role": "assistant", "content": part(number)}, {"role": "user", "content": "Read on."}]
        messages = view.fit(history)
    written = next(message for message in messages if "n0-" in str(message["content"]))
    print(f"{len(history)} messages, shown as {len(messages)}; folded {len(view.compactions)} times")
    print(next(line for line in written["content"].splitlines() if "n0-" in line)[:100])
    print("word for word:", view.recall("m7")[0].message["content"].splitlines()[0])
