-- What parts histories with the same beginning: the key of a client, its session, its role. Empty: nothing does.
ALTER TABLE conversations ADD COLUMN lineage TEXT NOT NULL DEFAULT '';
