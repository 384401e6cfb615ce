"""The three wires: chat completions (`chat`), Responses (`responses`) and Anthropic's Messages (`anthropic`).

Each file holds one provider: how it encodes a request, and how it puts a reply together. `http_provider` is what they
share.
"""
