-- Times are milliseconds since 1970 in UTC.

CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- `number` is what other tables refer to; `id` is what people and programs see.
-- A NULL in `model_groups` or `endpoints` means all, else a JSON array of names.
CREATE TABLE keys (
    number       INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    hash         BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    prefix       TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    plan         TEXT,
    model_groups TEXT,
    endpoints    TEXT,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER
) STRICT;

CREATE INDEX keys_by_prefix ON keys (prefix);

-- What a running gateway must forget. Triggers write it, so that no way of
-- changing a key, a hand at the sqlite3 prompt included, goes unseen. The newest
-- row always stays, so that the sequence never falls back; whoever has missed
-- rows that are gone forgets everything.
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
