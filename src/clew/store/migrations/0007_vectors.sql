-- Vectors of the passages of a document, one after the other, each number a byte; made by the model that is named.
CREATE TABLE vectors (
    doc INTEGER PRIMARY KEY REFERENCES docs (id) ON DELETE CASCADE,
    conversation INTEGER NOT NULL,
    model TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX vectors_by_conversation ON vectors (conversation, doc);
