-- Keys of a gateway's callers. Only their hashes are kept; amounts are millionths of a dollar.
CREATE TABLE access_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    mode TEXT,
    budget_micros INTEGER,
    spent_micros INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    expires INTEGER,
    revoked INTEGER,
    used INTEGER
);

-- What the caller's own request would have cost without Clew; NULL where nobody worked it out.
ALTER TABLE calls ADD COLUMN cost_direct_micros INTEGER;
