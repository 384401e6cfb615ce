"""The chat in a terminal: the prompt, streamed replies, the status line and slash commands."""
