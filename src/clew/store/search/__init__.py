"""Full-text search over messages, summaries, outputs and system prompts, the same on both databases.

`words` says what words a text has, `index` keeps them in each database, `index_updates` keeps the index up to date.
`query` reads a query, with `forms` of words and `days`; `candidates` asks the index, `ranking` scores texts and cuts
snippets, `passages` weighs neighbours and fills the page, `search` is all of it in order; `vectors` adds likeness by
meaning. The door is `clew.store`.
"""
