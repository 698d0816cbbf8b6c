-- Times are milliseconds since 1970 in UTC. Amounts are whole numbers: tokens, or billionths of the
-- currency's unit in grants of money and in what is leased and paid of them.

-- `pepper`: the fingerprint of the pepper. `commits`: the number of the last commit and a sum of
-- the rows of each table (commits.rs). `latest_record`: the latest time of a record (times.rs).
CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Other tables refer to `number`; people and programs see `id`. A NULL in `model_groups` or
-- `endpoints` allows all, else a JSON array of names. A limit that is NULL is that of the plan.
CREATE TABLE keys (
    number                   INTEGER PRIMARY KEY,
    id                       TEXT    NOT NULL UNIQUE,
    hash                     BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    prefix                   TEXT    NOT NULL,
    name                     TEXT    NOT NULL,
    plan                     TEXT,
    model_groups             TEXT,
    endpoints                TEXT,
    created_at               INTEGER NOT NULL,
    expires_at               INTEGER,
    revoked_at               INTEGER,
    requests_per_minute      INTEGER,
    input_tokens_per_minute  INTEGER,
    output_tokens_per_minute INTEGER,
    concurrent_requests      INTEGER
) STRICT;

CREATE INDEX keys_by_prefix ON keys (prefix);
-- Every start looks for plans that the configuration does not know.
CREATE INDEX keys_by_plan ON keys (plan);

-- The keys that a running gateway must read again. Triggers write the rows, so that every change
-- of a key is seen, one at the sqlite3 prompt included. The newest row always stays, so that the
-- sequence never falls back. A gateway that has missed deleted rows reads everything again.
CREATE TABLE changes (
    seq  INTEGER PRIMARY KEY,
    hash BLOB NOT NULL
) STRICT;

CREATE TRIGGER key_added AFTER INSERT ON keys BEGIN
    INSERT INTO changes (hash) VALUES (NEW.hash);
END;

CREATE TRIGGER key_changed AFTER UPDATE ON keys BEGIN
    INSERT INTO changes (hash) VALUES (NEW.hash);
    INSERT INTO changes (hash) SELECT OLD.hash WHERE OLD.hash <> NEW.hash;
END;

CREATE TRIGGER key_removed AFTER DELETE ON keys BEGIN
    INSERT INTO changes (hash) VALUES (OLD.hash);
END;

CREATE TRIGGER changes_bounded AFTER INSERT ON changes BEGIN
    DELETE FROM changes WHERE seq <= NEW.seq - 10000;
END;

-- `spent` is what was charged, `purged` the part of it whose records were deleted for their age.
-- The first use sets `first_used_at` and `expires_at`.
CREATE TABLE grants (
    number        INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    key           INTEGER NOT NULL REFERENCES keys (number),
    plan          TEXT,
    unit          TEXT    NOT NULL DEFAULT 'tokens' CHECK (unit IN ('tokens', 'money')),
    tokens        INTEGER NOT NULL CHECK (tokens > 0),
    spent         INTEGER NOT NULL DEFAULT 0 CHECK (spent BETWEEN 0 AND tokens),
    purged        INTEGER NOT NULL DEFAULT 0 CHECK (purged BETWEEN 0 AND spent),
    validity_ms   INTEGER NOT NULL CHECK (validity_ms > 0),
    created_at    INTEGER NOT NULL,
    first_used_at INTEGER,
    expires_at    INTEGER
) STRICT;

CREATE INDEX grants_by_key ON grants (key);

-- Verification reads this view, because PostgreSQL keeps `purged` in a table of its own.
CREATE VIEW spent_grants AS SELECT number, id, spent, purged FROM grants;

-- New, extended and begun grants are changes for running gateways; spending is not.
CREATE TRIGGER grant_added AFTER INSERT ON grants BEGIN
    INSERT INTO changes (hash) SELECT hash FROM keys WHERE number = NEW.key;
END;

CREATE TRIGGER grant_changed AFTER UPDATE ON grants
WHEN NEW.tokens <> OLD.tokens OR NEW.validity_ms <> OLD.validity_ms
    OR NEW.expires_at IS NOT OLD.expires_at
BEGIN
    INSERT INTO changes (hash) SELECT hash FROM keys WHERE number = NEW.key;
END;

-- Extensions that an order named, so that an order that comes again is carried out once. The ids
-- of keys and grants say by themselves which order made them.
CREATE TABLE extensions (
    id      TEXT    PRIMARY KEY,
    key     INTEGER NOT NULL REFERENCES keys (number),
    span_ms INTEGER NOT NULL,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A process that spends. `settlements` is the name of its settlement file, in the folder of this
-- file. `ended_at`: it has returned its leases, or another process has recovered it.
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

-- The database itself refuses leases that would let two processes spend the same tokens.
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

-- A process asks the others for a part of what they lease of a key.
CREATE TABLE lease_requests (
    key     INTEGER NOT NULL REFERENCES keys (number),
    process INTEGER NOT NULL REFERENCES processes (number),
    PRIMARY KEY (key, process)
) STRICT, WITHOUT ROWID;

-- One row for each request, however often it is settled. `paid_by` is the grant that paid
-- `charged - overdraft` tokens; if several paid, it is NULL and their parts are in `charges`.
-- `cost` is in billionths of the currency's unit; NULL if the prices were unknown. `cost_overdraft` is
-- the part of it that no grant of money covered; NULL if the cost was not charged. `cost_paid_by` is the
-- grant of money that paid the rest, as `paid_by` is of tokens.
-- `route_reason`: why the gateway chose the model, if the request left the choice to it.
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
    cost          INTEGER,
    source        TEXT    NOT NULL,
    clamped       INTEGER NOT NULL,
    first_byte_ms INTEGER,
    duration_ms   INTEGER NOT NULL,
    paid_by       INTEGER REFERENCES grants (number),
    route_reason  TEXT,
    cost_overdraft INTEGER,
    cost_paid_by  INTEGER REFERENCES grants (number)
) STRICT;

CREATE INDEX usage_by_time ON usage (key, at, number);
CREATE INDEX usage_by_model ON usage (key, model_served, at, number);
-- Nearly every request is completed: those are found by time, and cost no entry here. The last two columns
-- are compared by other filters, so that looking at many records does not read them.
CREATE INDEX usage_by_state ON usage (key, state, at, number, status, model_served)
    WHERE state <> 'completed';
CREATE INDEX usage_by_status ON usage (key, status, at, number, state, model_served)
    WHERE status <> 200;

-- The parts of a request that several grants paid.
CREATE TABLE charges (
    usage        INTEGER NOT NULL REFERENCES usage (number),
    grant_number INTEGER NOT NULL REFERENCES grants (number),
    tokens       INTEGER NOT NULL CHECK (tokens > 0),
    PRIMARY KEY (usage, grant_number)
) STRICT, WITHOUT ROWID;

-- Kept when records are purged. `cost` is that of the requests whose prices were known, `cost_paid`
-- the part of it that grants of money paid.
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
    cost        INTEGER NOT NULL,
    cost_paid   INTEGER NOT NULL,
    PRIMARY KEY (key, model)
) STRICT, WITHOUT ROWID;

-- Records that could not be entered, with the reason. A charge is never thrown away. Recovery can
-- find a record twice, if a crash interrupts it between its commit and the removal of the file.
CREATE TABLE quarantine (
    number INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    record BLOB    NOT NULL,
    cause  TEXT    NOT NULL,
    UNIQUE (record, cause)
) STRICT;

-- What providers store on behalf of keys: the key that had it made, and where it is. `tokens` is
-- the input that it makes in a later request, `request` the request that made a response, `tariff`
-- the weights and prices of that request as JSON; NULL if unknown.
CREATE TABLE owned (
    number     INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    key        TEXT    NOT NULL,
    provider   TEXT    NOT NULL,
    credential TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    tokens     INTEGER,
    request    TEXT,
    tariff     TEXT
) STRICT;

CREATE INDEX owned_by_time ON owned (at);

-- Answers that the gateway has translated and remembers. No sum of these rows is kept, because a
-- lost answer is no lost money. Each row has checksums, and one that does not match is ignored.
CREATE TABLE memory (
    number            INTEGER PRIMARY KEY,
    id                TEXT    NOT NULL UNIQUE,
    key               TEXT    NOT NULL,
    at                INTEGER NOT NULL,
    -- What the row counts towards the limits.
    bytes             INTEGER NOT NULL,
    -- The request whose answer this one continues.
    previous          TEXT,
    response_checksum INTEGER NOT NULL,
    input_checksum    INTEGER NOT NULL,
    -- The long ones come last: the first is read without the second.
    response          BLOB    NOT NULL,
    input             BLOB    NOT NULL
) STRICT;

CREATE INDEX memory_by_key ON memory (key, number);
CREATE INDEX memory_by_time ON memory (at);

-- Bytes of each key's rows; of all rows under the empty name.
CREATE TABLE memory_bytes (
    key   TEXT    PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO memory_bytes (key, bytes) VALUES ('', 0);

CREATE TRIGGER memory_row_counted AFTER INSERT ON memory BEGIN
    INSERT INTO memory_bytes (key, bytes) VALUES (NEW.key, NEW.bytes)
        ON CONFLICT (key) DO UPDATE SET bytes = bytes + excluded.bytes;
    UPDATE memory_bytes SET bytes = bytes + NEW.bytes WHERE key = '';
END;

CREATE TRIGGER memory_row_gone AFTER DELETE ON memory BEGIN
    UPDATE memory_bytes SET bytes = bytes - OLD.bytes WHERE key IN (OLD.key, '');
    DELETE FROM memory_bytes WHERE key = OLD.key AND bytes <= 0;
END;
