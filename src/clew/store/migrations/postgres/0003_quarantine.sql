-- What was set aside because it could not be read: the bytes as they were, and where they stood.
CREATE TABLE quarantine (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind TEXT NOT NULL,
    conversation BIGINT,
    seq BIGINT,
    what TEXT NOT NULL,
    problem TEXT NOT NULL,
    body BYTEA NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX quarantine_by_message ON quarantine (conversation, seq);
