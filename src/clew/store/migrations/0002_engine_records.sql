-- What a context engine keeps with a conversation. `id` orders records by when they were first stored.
CREATE TABLE engine_records (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (id),
    engine TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    until INTEGER NOT NULL,
    at INTEGER NOT NULL,
    UNIQUE (conversation, engine, name)
);
