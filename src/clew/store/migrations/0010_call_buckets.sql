-- Requests that callers of a gateway may still send, counted by all of its processes together.
CREATE TABLE call_buckets (
    caller BLOB PRIMARY KEY,
    available REAL NOT NULL,
    filled INTEGER NOT NULL
) WITHOUT ROWID;
