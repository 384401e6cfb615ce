-- What was set aside because it could not be read: the bytes as they were, and where they stood.
CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    conversation INTEGER,
    seq INTEGER,
    what TEXT NOT NULL,
    problem TEXT NOT NULL,
    body BLOB NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX quarantine_by_message ON quarantine (conversation, seq);
