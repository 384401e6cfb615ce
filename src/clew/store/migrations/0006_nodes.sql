-- Nodes of a map, each written once: a summary that stands for the messages `first` to `last` (not included).
-- `entry` is the compaction that published it; `replaces` the provisional node that it is a better text for.
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL REFERENCES conversations (id),
    name TEXT NOT NULL,
    depth INTEGER NOT NULL CHECK (depth >= 0),
    first INTEGER NOT NULL CHECK (first >= 0),
    last INTEGER NOT NULL CHECK (last > first),
    body TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    covered_tokens INTEGER NOT NULL,
    written_by TEXT NOT NULL,
    template TEXT NOT NULL,
    is_final INTEGER NOT NULL,
    replaces INTEGER REFERENCES nodes (id),
    entry INTEGER REFERENCES entries (id),
    at INTEGER NOT NULL,
    UNIQUE (conversation, name)
);
CREATE INDEX nodes_by_entry ON nodes (entry) WHERE entry IS NOT NULL;
CREATE INDEX nodes_by_replaced ON nodes (replaces) WHERE replaces IS NOT NULL;

CREATE TABLE node_edges (
    parent INTEGER NOT NULL REFERENCES nodes (id),
    position INTEGER NOT NULL,
    child INTEGER NOT NULL REFERENCES nodes (id),
    PRIMARY KEY (parent, position)
) WITHOUT ROWID;
CREATE INDEX node_edges_by_child ON node_edges (child);

-- The nodes that the view of a compaction shows, oldest first.
CREATE TABLE entry_nodes (
    entry INTEGER NOT NULL REFERENCES entries (id),
    position INTEGER NOT NULL,
    node INTEGER NOT NULL REFERENCES nodes (id),
    PRIMARY KEY (entry, position)
) WITHOUT ROWID;
CREATE INDEX entry_nodes_by_node ON entry_nodes (node);
