-- Whether recall is offered to the models of a key's conversations: 'on' or 'off'; NULL: as the gateway is set.
ALTER TABLE access_keys ADD COLUMN recall TEXT;
