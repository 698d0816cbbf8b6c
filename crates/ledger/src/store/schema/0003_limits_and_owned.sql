-- A key's own limits; NULL: those of its plan.
ALTER TABLE keys ADD COLUMN requests_per_minute INTEGER;
ALTER TABLE keys ADD COLUMN input_tokens_per_minute INTEGER;
ALTER TABLE keys ADD COLUMN output_tokens_per_minute INTEGER;
ALTER TABLE keys ADD COLUMN concurrent_requests INTEGER;

-- What providers store on behalf of keys: who made it, and where it is.
CREATE TABLE owned (
    number     INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    key        TEXT    NOT NULL,
    provider   TEXT    NOT NULL,
    credential TEXT    NOT NULL,
    at         INTEGER NOT NULL
) STRICT;
