-- Who writes the handoffs of a key's conversations: 'model' or 'built-in'; NULL: as the gateway is set.
ALTER TABLE access_keys ADD COLUMN handoffs TEXT;
