"""Small tools: count tokens, mark what is cached, read any usage and any error. `pip install clew-context`"""

import clew

messages = [{"role": "system", "content": "You sell parts."}, {"role": "user", "content": "What does part 3 cost?"}]
print(clew.count_tokens(messages, model="gpt-5"), "tokens")

marked = clew.apply_cache_control(messages, ttl="1h")  # the input is untouched
print(sum("cache_control" in str(message) for message in marked), "breakpoints")

used = clew.normalize_usage({"input_tokens": 20, "cache_read_input_tokens": 900, "output_tokens": 7})  # any provider's
print(f"{used.prompt_tokens} prompt tokens, {used.cache_read_tokens} of them from the cache")

told = clew.classify_error(
    400, "This model's maximum context length is 131072 tokens, but you requested 140000 tokens."
)
print(told.kind, told.limit)
