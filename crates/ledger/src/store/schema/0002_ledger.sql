-- Tokens are whole numbers; times are milliseconds since 1970 in UTC.

-- `spent` is what has been charged, `purged` the part of it whose records have been
-- taken away for their age. `expires_at` is set by the first charge.
CREATE TABLE grants (
    number        INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    key           INTEGER NOT NULL REFERENCES keys (number),
    plan          TEXT,
    tokens        INTEGER NOT NULL CHECK (tokens > 0),
    spent         INTEGER NOT NULL DEFAULT 0 CHECK (spent BETWEEN 0 AND tokens),
    purged        INTEGER NOT NULL DEFAULT 0 CHECK (purged BETWEEN 0 AND spent),
    validity_ms   INTEGER NOT NULL CHECK (validity_ms > 0),
    created_at    INTEGER NOT NULL,
    first_used_at INTEGER,
    expires_at    INTEGER
) STRICT;

CREATE INDEX grants_by_key ON grants (key);

-- A process that spends. `settlements` is the name of its settlement file, in the
-- folder of this file. `ended_at`: it has given everything back, or was found dead.
CREATE TABLE processes (
    number      INTEGER PRIMARY KEY,
    settlements TEXT    NOT NULL UNIQUE,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER
) STRICT;

-- What a process may spend of a grant.
CREATE TABLE leases (
    grant_number INTEGER NOT NULL REFERENCES grants (number),
    process      INTEGER NOT NULL REFERENCES processes (number),
    tokens       INTEGER NOT NULL CHECK (tokens >= 0),
    PRIMARY KEY (grant_number, process)
) STRICT, WITHOUT ROWID;

CREATE INDEX leases_by_process ON leases (process);

-- The file itself refuses what would let two processes spend the same tokens.
CREATE TRIGGER lease_within_grant AFTER INSERT ON leases BEGIN
    SELECT RAISE (ABORT, 'leases exceed the grant')
    WHERE (SELECT tokens - spent FROM grants WHERE number = NEW.grant_number)
        < (SELECT sum(tokens) FROM leases WHERE grant_number = NEW.grant_number);
END;

CREATE TRIGGER lease_grown_within_grant AFTER UPDATE ON leases WHEN NEW.tokens > OLD.tokens BEGIN
    SELECT RAISE (ABORT, 'leases exceed the grant')
    WHERE (SELECT tokens - spent FROM grants WHERE number = NEW.grant_number)
        < (SELECT sum(tokens) FROM leases WHERE grant_number = NEW.grant_number);
END;

-- A process asks the others for a share of what they hold for a key.
CREATE TABLE wants (
    key     INTEGER NOT NULL REFERENCES keys (number),
    process INTEGER NOT NULL REFERENCES processes (number),
    PRIMARY KEY (key, process)
) STRICT, WITHOUT ROWID;

-- One row a request, however often it is settled.
CREATE TABLE usage (
    number        INTEGER PRIMARY KEY,
    request       TEXT    NOT NULL UNIQUE,
    key           INTEGER NOT NULL REFERENCES keys (number),
    at            INTEGER NOT NULL,
    model_asked   TEXT    NOT NULL,
    model_served  TEXT    NOT NULL,
    format        TEXT    NOT NULL,
    streamed      INTEGER NOT NULL,
    status        INTEGER NOT NULL,
    error         TEXT,
    state         TEXT    NOT NULL,
    input         INTEGER NOT NULL,
    cache_read    INTEGER NOT NULL,
    cache_write   INTEGER NOT NULL,
    output        INTEGER NOT NULL,
    reasoning     INTEGER NOT NULL,
    charged       INTEGER NOT NULL,
    overdraft     INTEGER NOT NULL,
    source        TEXT    NOT NULL,
    clamped       INTEGER NOT NULL,
    first_byte_ms INTEGER,
    duration_ms   INTEGER NOT NULL
) STRICT;

CREATE INDEX usage_by_time ON usage (key, at, number);
CREATE INDEX usage_by_model ON usage (key, model_served, at, number);
CREATE INDEX usage_by_state ON usage (key, state, at, number);

-- Which grants paid.
CREATE TABLE charges (
    usage        INTEGER NOT NULL REFERENCES usage (number),
    grant_number INTEGER NOT NULL REFERENCES grants (number),
    tokens       INTEGER NOT NULL CHECK (tokens > 0),
    PRIMARY KEY (usage, grant_number)
) STRICT, WITHOUT ROWID;

-- Kept when records are purged.
CREATE TABLE totals (
    key         INTEGER NOT NULL REFERENCES keys (number),
    model       TEXT    NOT NULL,
    requests    INTEGER NOT NULL,
    input       INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    charged     INTEGER NOT NULL,
    overdraft   INTEGER NOT NULL,
    PRIMARY KEY (key, model)
) STRICT, WITHOUT ROWID;

-- Records that could not be entered, with the reason. A charge is never thrown away.
CREATE TABLE quarantine (
    number INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    record BLOB    NOT NULL,
    cause  TEXT    NOT NULL
) STRICT;

-- Top-ups, extensions and the beginning of a grant are news for running gateways;
-- spending is not.
CREATE TRIGGER grant_added AFTER INSERT ON grants BEGIN
    INSERT INTO changes (hash) SELECT hash FROM keys WHERE number = NEW.key;
END;

CREATE TRIGGER grant_changed AFTER UPDATE ON grants
WHEN NEW.tokens <> OLD.tokens OR NEW.validity_ms <> OLD.validity_ms
    OR NEW.expires_at IS NOT OLD.expires_at
BEGIN
    INSERT INTO changes (hash) SELECT hash FROM keys WHERE number = NEW.key;
END;
