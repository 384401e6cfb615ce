"""Full-text search over messages, summaries, outputs and system prompts, the same on both databases.

`words` says what words a text has, `index` keeps them in each database, `indexing` keeps the index up to date; `query`
reads a query, `search` finds candidates, `ranking` scores them and cuts snippets. The room's door is `clew.store`.
"""
