-- Extensions that were ordered by name: an order that comes again is carried out once. What
-- keys and grants are made of a name say so by their ids. Kept as long as those are.
CREATE TABLE extensions (
    id      TEXT    PRIMARY KEY,
    key     INTEGER NOT NULL REFERENCES keys (number),
    span_ms INTEGER NOT NULL,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
