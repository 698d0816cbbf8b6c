-- Answers that the gateway has translated, as it remembers them (memory.rs). No sum of these rows is
-- kept: a lost row is no lost money. Each has checksums, and one that does not match is ignored.
CREATE TABLE IF NOT EXISTS memory (
    number            INTEGER PRIMARY KEY,
    id                TEXT    NOT NULL UNIQUE,
    key               TEXT    NOT NULL,
    at                INTEGER NOT NULL,
    -- What the row counts towards the bounds.
    bytes             INTEGER NOT NULL,
    -- The request that made the answer from which this one goes on.
    previous          TEXT,
    response_checksum INTEGER NOT NULL,
    input_checksum    INTEGER NOT NULL,
    -- The long ones come last: the first is read without the second.
    response          BLOB    NOT NULL,
    input             BLOB    NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS memory_by_key ON memory (key, number);

-- Bytes of each key's rows; of all rows under the empty name.
CREATE TABLE IF NOT EXISTS memory_bytes (
    key   TEXT    PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO memory_bytes (key, bytes) VALUES ('', 0) ON CONFLICT DO NOTHING;
CREATE TRIGGER IF NOT EXISTS memory_row_counted AFTER INSERT ON memory BEGIN
    INSERT INTO memory_bytes (key, bytes) VALUES (NEW.key, NEW.bytes)
        ON CONFLICT (key) DO UPDATE SET bytes = bytes + excluded.bytes;
    UPDATE memory_bytes SET bytes = bytes + NEW.bytes WHERE key = '';
END;
CREATE TRIGGER IF NOT EXISTS memory_row_gone AFTER DELETE ON memory BEGIN
    UPDATE memory_bytes SET bytes = bytes - OLD.bytes WHERE key IN (OLD.key, '');
    DELETE FROM memory_bytes WHERE key = OLD.key AND bytes <= 0;
END;
