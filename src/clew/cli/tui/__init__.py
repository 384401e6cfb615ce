"""The chat on a screen: what is typed, what streams, the status line, slash commands.

Decodes keys, asks the agent, draws what it is told. No policy: everything it does can be done through the library.
"""
