-- What requests under way will probably cost, by the name of their key: other requests see it as spent until it expires.
CREATE TABLE reservations (
    name TEXT PRIMARY KEY,
    access_key TEXT NOT NULL,
    micros INTEGER NOT NULL,
    expires INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX reservations_by_key ON reservations (access_key);
