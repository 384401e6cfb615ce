-- Ids of conversations and sessions are never used twice, so that a remembered one cannot come to mean another.
CREATE TABLE conversations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    origin INTEGER REFERENCES conversations (id),
    origin_seq INTEGER NOT NULL DEFAULT 0,
    first_base INTEGER,
    created INTEGER NOT NULL
);
CREATE INDEX conversations_by_origin ON conversations (origin) WHERE origin IS NOT NULL;

-- Whatever is kept once by its hash. Owners do not share, so that none can learn what another has.
CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    hash BLOB NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (owner, hash)
);

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    conversation INTEGER NOT NULL REFERENCES conversations (id),
    parent INTEGER REFERENCES sessions (id) ON DELETE SET NULL,
    kind TEXT NOT NULL,
    first_seq INTEGER NOT NULL,
    created INTEGER NOT NULL,
    ended INTEGER,
    end_reason TEXT,
    title TEXT,
    source TEXT NOT NULL,
    model TEXT,
    system INTEGER REFERENCES texts (id)
);
CREATE INDEX sessions_by_conversation ON sessions (conversation, id);
CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;
CREATE INDEX sessions_by_system ON sessions (system) WHERE system IS NOT NULL;

-- Written once. A body of NULL: this message came from the same wire items as the row `part` numbers before it.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (id),
    seq INTEGER NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions (id),
    chain BLOB NOT NULL,
    role TEXT NOT NULL,
    tool TEXT,
    at INTEGER NOT NULL,
    tokens INTEGER,
    dialect TEXT,
    part INTEGER NOT NULL DEFAULT 0,
    body TEXT,
    UNIQUE (conversation, seq)
);
CREATE INDEX messages_by_chain ON messages (chain);

-- Compactions and undos. In effect afterwards is the compaction itself, or the `base` of the undo; `previous` was before.
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL REFERENCES conversations (id),
    session INTEGER NOT NULL REFERENCES sessions (id),
    kind TEXT NOT NULL,
    base INTEGER,
    previous INTEGER,
    until INTEGER NOT NULL,
    view TEXT,
    summary INTEGER REFERENCES texts (id),
    account TEXT,
    at INTEGER NOT NULL
);
CREATE INDEX entries_by_conversation ON entries (conversation, id);
CREATE INDEX entries_by_session ON entries (session);

-- The messages that a compaction wrote, and who still needs them.
CREATE TABLE entry_texts (
    entry INTEGER NOT NULL REFERENCES entries (id),
    text INTEGER NOT NULL REFERENCES texts (id),
    PRIMARY KEY (entry, text)
) WITHOUT ROWID;
CREATE INDEX entry_texts_by_text ON entry_texts (text);

CREATE TABLE outputs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    conversation INTEGER NOT NULL REFERENCES conversations (id),
    session INTEGER NOT NULL REFERENCES sessions (id),
    text INTEGER NOT NULL REFERENCES texts (id),
    seq INTEGER NOT NULL,
    tool TEXT,
    path TEXT,
    at INTEGER NOT NULL,
    UNIQUE (conversation, text)
);
CREATE INDEX outputs_by_text ON outputs (text);

-- Money stays known when a conversation is deleted: the links are cut, the figures are not.
CREATE TABLE calls (
    id INTEGER PRIMARY KEY,
    name TEXT UNIQUE,
    owner TEXT NOT NULL,
    conversation INTEGER REFERENCES conversations (id) ON DELETE SET NULL,
    session INTEGER REFERENCES sessions (id) ON DELETE SET NULL,
    seq INTEGER,
    at INTEGER NOT NULL,
    model TEXT NOT NULL,
    provider TEXT NOT NULL,
    source TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost_micros INTEGER
);
CREATE INDEX calls_by_conversation ON calls (conversation);
CREATE INDEX calls_by_session ON calls (session);
CREATE INDEX calls_by_time ON calls (at);

CREATE TABLE states (
    conversation INTEGER NOT NULL REFERENCES conversations (id),
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (conversation, name)
) WITHOUT ROWID;

CREATE TABLE windows (
    model TEXT NOT NULL,
    base_url TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (model, base_url)
) WITHOUT ROWID;

CREATE TABLE leases (
    conversation INTEGER PRIMARY KEY REFERENCES conversations (id),
    holder TEXT NOT NULL,
    token INTEGER NOT NULL,
    taken INTEGER NOT NULL,
    expires INTEGER NOT NULL
);

-- What search covers: a stretch of the text of a message, a summary, an output or a system prompt.
CREATE TABLE docs (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    ref INTEGER NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    owner TEXT NOT NULL,
    conversation INTEGER,
    session INTEGER,
    seq INTEGER,
    role TEXT,
    tool TEXT,
    at INTEGER NOT NULL
);
CREATE INDEX docs_by_ref ON docs (kind, ref);
-- only sqlite
CREATE VIRTUAL TABLE words USING fts5 (
    text, parts, facets, content = '', tokenize = 'unicode61 remove_diacritics 0'
);

-- How far the index reaches in each table that it covers.
-- only sqlite
CREATE TABLE indexed (kind TEXT PRIMARY KEY, upto INTEGER NOT NULL) WITHOUT ROWID;
-- only sqlite
INSERT INTO indexed (kind, upto) VALUES ('message', 0), ('summary', 0), ('output', 0), ('system', 0);

-- only postgres
ALTER TABLE docs ADD COLUMN words TSVECTOR NOT NULL;
-- only postgres
CREATE INDEX docs_by_conversation ON docs (conversation, seq);
-- only postgres
CREATE INDEX docs_by_words ON docs USING GIN (words);
