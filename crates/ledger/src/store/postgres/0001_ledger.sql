-- Times are milliseconds since 1970 in UTC. Amounts are whole numbers: tokens, or billionths of the
-- currency's unit in grants of money and in what is leased and paid of them. A transaction that leases,
-- returns or spends some of a key locks the row of the key first, several in the order of `number`.

CREATE TABLE settings (name text PRIMARY KEY, value bytea NOT NULL);

-- A new number, with a random part: a standby that lacks the last rows would give their numbers to other rows when
-- it takes over, and settlement files and the memory of gateways have numbers.
CREATE FUNCTION new_number(sequence regclass) RETURNS bigint LANGUAGE sql AS $$
    SELECT nextval(sequence) << 24 | floor(random() * 16777216)::bigint
$$;
CREATE SEQUENCE key_numbers;
CREATE SEQUENCE change_numbers;
CREATE SEQUENCE grant_numbers;
CREATE SEQUENCE process_numbers;

CREATE TABLE keys (
    number bigint PRIMARY KEY DEFAULT new_number('key_numbers'),
    id text NOT NULL UNIQUE, hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    prefix text COLLATE "C" NOT NULL, name text NOT NULL, plan text,
    model_groups text, endpoints text,
    created_at bigint NOT NULL, expires_at bigint, revoked_at bigint,
    requests_per_minute bigint, input_tokens_per_minute bigint,
    output_tokens_per_minute bigint, concurrent_requests bigint
);
CREATE INDEX keys_by_prefix ON keys (prefix);
-- Every start looks for plans that the configuration does not know.
CREATE INDEX keys_by_plan ON keys (plan);

-- The keys that a running gateway must read again.
CREATE TABLE changes (
    seq bigint PRIMARY KEY DEFAULT new_number('change_numbers'), hash bytea NOT NULL
);

-- The lock makes the order of the numbers that of the commits: a reader that has seen a number has
-- seen all before it.
CREATE FUNCTION note_change(changed bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE newest bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext(current_schema() || '.changes'));
    INSERT INTO changes (hash) VALUES (changed) RETURNING seq INTO newest;
    DELETE FROM changes WHERE seq <= newest - (10000::bigint << 24);
    PERFORM pg_notify('tollgate_changes', '');
END $$;

CREATE FUNCTION key_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN PERFORM note_change(OLD.hash); END IF;
    IF TG_OP = 'INSERT' OR (TG_OP = 'UPDATE' AND NEW.hash <> OLD.hash) THEN
        PERFORM note_change(NEW.hash);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER key_changed AFTER INSERT OR UPDATE OR DELETE ON keys
    FOR EACH ROW EXECUTE FUNCTION key_changed();

CREATE TABLE grants (
    number bigint PRIMARY KEY DEFAULT new_number('grant_numbers'),
    id text NOT NULL UNIQUE, key bigint NOT NULL REFERENCES keys (number), plan text,
    unit text COLLATE "C" NOT NULL DEFAULT 'tokens'
        CHECK (unit IN ('tokens', 'money')),
    tokens bigint NOT NULL CHECK (tokens > 0),
    spent bigint NOT NULL DEFAULT 0 CHECK (spent BETWEEN 0 AND tokens),
    validity_ms bigint NOT NULL CHECK (validity_ms > 0),
    created_at bigint NOT NULL, first_used_at bigint, expires_at bigint
);
CREATE INDEX grants_by_key ON grants (key);

CREATE FUNCTION grant_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM note_change(hash) FROM keys WHERE number = NEW.key;
    RETURN NULL;
END $$;
CREATE TRIGGER grant_added AFTER INSERT ON grants
    FOR EACH ROW EXECUTE FUNCTION grant_changed();
CREATE TRIGGER grant_changed AFTER UPDATE ON grants FOR EACH ROW
    WHEN (NEW.tokens <> OLD.tokens OR NEW.validity_ms <> OLD.validity_ms
        OR NEW.expires_at IS DISTINCT FROM OLD.expires_at)
    EXECUTE FUNCTION grant_changed();

CREATE TABLE extensions (
    id text PRIMARY KEY, key bigint NOT NULL REFERENCES keys (number),
    span_ms bigint NOT NULL, at bigint NOT NULL
);

CREATE TABLE processes (
    number bigint PRIMARY KEY DEFAULT new_number('process_numbers'),
    settlements text NOT NULL UNIQUE, started_at bigint NOT NULL, ended_at bigint,
    -- Grows as long as the process works: other nodes see by it that the process has not crashed.
    renewals bigint NOT NULL DEFAULT 0,
    -- The commits of the process: it sees by it whether one was carried out whose answer was lost.
    commits bigint NOT NULL DEFAULT 0
);
ALTER SEQUENCE key_numbers OWNED BY keys.number;
ALTER SEQUENCE change_numbers OWNED BY changes.seq;
ALTER SEQUENCE grant_numbers OWNED BY grants.number;
ALTER SEQUENCE process_numbers OWNED BY processes.number;
CREATE INDEX processes_running ON processes (number) WHERE ended_at IS NULL;

CREATE TABLE leases (
    grant_number bigint NOT NULL REFERENCES grants (number),
    process bigint NOT NULL REFERENCES processes (number),
    tokens bigint NOT NULL CHECK (tokens >= 0),
    PRIMARY KEY (grant_number, process)
);
CREATE INDEX leases_by_process ON leases (process);

-- The database itself refuses leases that would let two processes spend the same tokens.
CREATE FUNCTION lease_within_grant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT tokens - spent FROM grants WHERE number = NEW.grant_number)
        < (SELECT sum(tokens) FROM leases WHERE grant_number = NEW.grant_number)
    THEN
        RAISE check_violation USING MESSAGE = 'leases exceed the grant';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER lease_made AFTER INSERT ON leases
    FOR EACH ROW EXECUTE FUNCTION lease_within_grant();
CREATE TRIGGER lease_grown AFTER UPDATE ON leases FOR EACH ROW WHEN (NEW.tokens > OLD.tokens)
    EXECUTE FUNCTION lease_within_grant();

-- `seq` grows with each repetition, by which other processes notice it.
CREATE SEQUENCE lease_request_numbers;
CREATE TABLE lease_requests (
    key bigint NOT NULL REFERENCES keys (number),
    process bigint NOT NULL REFERENCES processes (number),
    seq bigint NOT NULL DEFAULT nextval('lease_request_numbers'),
    PRIMARY KEY (key, process)
);

CREATE FUNCTION tokens_requested() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tollgate_changes', '');
    RETURN NULL;
END $$;
CREATE TRIGGER tokens_requested AFTER INSERT OR UPDATE ON lease_requests
    FOR EACH STATEMENT EXECUTE FUNCTION tokens_requested();

-- The limits of keys, which gateways share here if no other server counts: requests, input and output tokens
-- a minute, and concurrent requests (0 to 3). Amounts are in units of 1/60,000. Not logged: after a crash of the
-- server every limit begins anew.
CREATE UNLOGGED TABLE limit_debts (
    key text COLLATE "C", dimension smallint,
    -- What all gateways have taken and has not flowed back at this time.
    debt bigint NOT NULL CHECK (debt >= 0), at_ms bigint NOT NULL,
    PRIMARY KEY (key, dimension)
) WITH (fillfactor = 50);
CREATE UNLOGGED TABLE limit_leases (
    key text COLLATE "C", dimension smallint, node text COLLATE "C",
    -- What the gateway may take of the rest, and what its requests need. Nothing of the empty key: by this row
    -- others know that the gateway leases limits here.
    leased bigint NOT NULL CHECK (leased >= 0), demand bigint NOT NULL, at_ms bigint NOT NULL,
    -- The lease before: the gateway uses it until it has this answer, which its next report shows.
    previous bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (key, dimension, node)
) WITH (fillfactor = 50);

-- Adds what a gateway has taken of limits, and leases it a share of the rest of each in proportion to its demand,
-- at least one, but nothing that another one leases. A gateway that is silent for 1.2 seconds leases nothing. If
-- fewer lease than expected, the shares are as much smaller. Returns for each claim the share in billionths, the
-- debt of all gateways, and the leased amount. All claims of a key are in one bucket.
CREATE FUNCTION lease_limits(this_node text, expected bigint, buckets integer[], claims json)
RETURNS TABLE (part bigint, debt bigint, leased bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE now_ms bigint; present numeric; bucket integer;
BEGIN
    -- One gateway after the other in each bucket: each sees what those before it lease. All take the locks in
    -- one order, so that they cannot wait for each other.
    FOR bucket IN SELECT DISTINCT unnest(buckets) AS number ORDER BY number LOOP
        PERFORM pg_advisory_xact_lock(hashtext(current_schema() || '.limits'), bucket);
    END LOOP;
    now_ms := extract(epoch FROM clock_timestamp()) * 1000;
    INSERT INTO limit_leases VALUES ('', 0, this_node, 0, 0, now_ms)
        ON CONFLICT (key, dimension, node) DO UPDATE SET at_ms = excluded.at_ms;
    SELECT least(expected, count(*)) INTO present FROM limit_leases
        WHERE key = '' AND at_ms BETWEEN now_ms - 1200 AND now_ms + 1200;
    RETURN QUERY
    WITH claim AS (
        SELECT key, dimension, kept, demand, ordinality, most * 60000 AS whole,
            greatest(0, least(most * 600000, taken + greatest(floor,
                debt - most * least(greatest(now_ms - at_ms, 0), 600000)))) AS owed
        FROM ROWS FROM (json_to_recordset(claims) AS (key text, dimension smallint, most bigint,
            taken bigint, floor bigint, kept bigint, demand bigint)) WITH ORDINALITY
        LEFT JOIN limit_debts USING (key, dimension)
    ), part AS (
        SELECT claim.*, coalesce(others.leased, 0) AS elsewhere,
            ceil(1000000000 * present / expected * coalesce(
                claim.demand / nullif(claim.demand + coalesce(others.demand, 0), 0), 1)) AS part
        -- A join would compare each claim with every lease if the planner underestimates their number.
        FROM claim LEFT JOIN LATERAL (
            SELECT sum(greatest(leased, previous)) AS leased, sum(demand) AS demand FROM limit_leases
            WHERE key = claim.key AND dimension = claim.dimension AND node <> this_node
                AND at_ms BETWEEN now_ms - 1200 AND now_ms + 1200
        ) AS others ON true
    ), lease AS (
        SELECT *, greatest(kept, 60000 * floor(least(whole - owed - elsewhere,
            greatest(part * (whole - owed) / 1000000000, 60000 * sign(part))) / 60000))::bigint AS leased
        FROM part
    ), debts AS (
        INSERT INTO limit_debts SELECT key, dimension, owed, now_ms FROM lease
        ON CONFLICT (key, dimension) DO UPDATE SET (debt, at_ms) = (excluded.debt, excluded.at_ms)
    ), leases AS (
        INSERT INTO limit_leases SELECT key, dimension, this_node, leased, demand, now_ms FROM lease
        ON CONFLICT (key, dimension, node) DO UPDATE SET (leased, demand, at_ms, previous) =
            (excluded.leased, excluded.demand, excluded.at_ms, limit_leases.leased)
    )
    SELECT part::bigint, owed, leased FROM lease ORDER BY ordinality;
END $$;

-- The time of the server. What a gateway deletes for its age is old by this clock, too.
CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (extract(epoch FROM now()) * 1000)::bigint
$$;

-- The history is partitioned by weeks, so that purging deletes no rows. A request has one record, because a
-- transaction locks the row of the key before it looks for the record and inserts it. There are no foreign
-- keys, because the server would check them for each record; keys and grants are never deleted.
CREATE SEQUENCE usage_numbers;
CREATE TABLE usage (
    number bigint NOT NULL DEFAULT nextval('usage_numbers'),
    request text NOT NULL, key bigint NOT NULL,
    at bigint NOT NULL, model_asked text NOT NULL, model_served text NOT NULL,
    format text NOT NULL, streamed boolean NOT NULL, status bigint NOT NULL,
    error text, state text NOT NULL,
    input bigint NOT NULL, cache_read bigint NOT NULL, cache_write bigint NOT NULL,
    output bigint NOT NULL, reasoning bigint NOT NULL,
    charged bigint NOT NULL, overdraft bigint NOT NULL,
    -- In billionths of the currency's unit; NULL if the prices were unknown.
    cost bigint, source text NOT NULL,
    clamped boolean NOT NULL, first_byte_ms bigint, duration_ms bigint NOT NULL,
    paid_by bigint, route_reason text,
    -- The part of the cost that no grant of money covered; NULL if the cost was not charged.
    cost_overdraft bigint,
    -- The grant of money that paid the rest; NULL if several did.
    cost_paid_by bigint,
    PRIMARY KEY (number, at)
) PARTITION BY RANGE (at);
ALTER SEQUENCE usage_numbers OWNED BY usage.number;
CREATE INDEX usage_by_request ON usage (request);
CREATE INDEX usage_by_time ON usage (key, at, number);
CREATE INDEX usage_by_model ON usage (key, model_served, at, number);
-- Nearly every request is completed: those are found by time, and cost no entry here. What other filters
-- compare is included, so that looking at many records does not read them.
CREATE INDEX usage_by_state ON usage (key, state, at, number) INCLUDE (status, model_served)
    WHERE state <> 'completed';
CREATE INDEX usage_by_status ON usage (key, status, at, number) INCLUDE (state, model_served)
    WHERE status <> 200;

-- The time of a key's latest record.
CREATE TABLE record_times (key bigint PRIMARY KEY REFERENCES keys (number), latest bigint NOT NULL);

-- `usage` and `at` are those of the record.
CREATE TABLE charges (
    usage bigint NOT NULL, at bigint NOT NULL, grant_number bigint NOT NULL,
    tokens bigint NOT NULL CHECK (tokens > 0),
    PRIMARY KEY (usage, grant_number, at)
) PARTITION BY RANGE (at);

-- What the records of dropped weeks charged to a grant.
CREATE TABLE purged (grant_number bigint PRIMARY KEY, tokens bigint NOT NULL);
CREATE VIEW spent_grants AS
    SELECT number, id, spent, coalesce(purged.tokens, 0) AS purged
    FROM grants LEFT JOIN purged ON grant_number = number;

-- `current_user` is the owner in the functions that call this.
CREATE FUNCTION check_may_change_history() RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE caller name := coalesce(nullif(current_setting('role'), 'none'), session_user);
BEGIN
    IF NOT has_table_privilege(caller, 'usage', 'DELETE') THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for table usage';
    END IF;
END $$;

-- Creates the tables of a week, counted from 1970, if they are missing. The functions run with the rights of
-- the owner, so that the role of a gateway needs to read and write rows only. Another role that may not
-- change the history is refused.
CREATE FUNCTION make_history_part(week bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM check_may_change_history();
    IF to_regclass('usage_' || week) IS NOT NULL THEN RETURN; END IF;
    -- Not the lock of `drop_history_part`, which adds up a week under it.
    PERFORM pg_advisory_xact_lock(hashtext(current_schema() || '.new_week'));
    IF to_regclass('usage_' || week) IS NOT NULL THEN RETURN; END IF;
    -- Attaching a table delays no reader and no writer, unlike CREATE TABLE ... PARTITION OF.
    EXECUTE format('CREATE TABLE usage_%1$s (LIKE usage INCLUDING ALL);
        CREATE TABLE charges_%1$s (LIKE charges INCLUDING ALL);
        ALTER TABLE usage ATTACH PARTITION usage_%1$s FOR VALUES FROM (%2$s) TO (%3$s);
        ALTER TABLE charges ATTACH PARTITION charges_%1$s FOR VALUES FROM (%2$s) TO (%3$s)',
        week, week * 604800000, (week + 1) * 604800000);
END $$;

-- The oldest week of the history; NULL if there is none.
CREATE FUNCTION oldest_history_part() RETURNS bigint LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT min(split_part(relname, '_', 2)::bigint)
    FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = 'usage'::regclass
$$;

-- Drops the oldest week if it is before this one, and notes what it charged. Returns how many records it had;
-- NULL if there is none to drop.
CREATE FUNCTION drop_history_part(before_week bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE week bigint; records bigint;
BEGIN
    PERFORM check_may_change_history();
    PERFORM pg_advisory_xact_lock(hashtext(current_schema() || '.history'));
    week := oldest_history_part();
    IF week IS NULL OR week >= before_week THEN RETURN NULL; END IF;
    EXECUTE format('LOCK TABLE usage_%1$s, charges_%1$s IN SHARE MODE', week);
    EXECUTE format('INSERT INTO purged
        SELECT grant_number, sum(tokens) FROM (
            SELECT paid_by AS grant_number, charged - overdraft AS tokens FROM usage_%1$s
            WHERE paid_by IS NOT NULL
            UNION ALL
            SELECT cost_paid_by, cost - cost_overdraft FROM usage_%1$s WHERE cost_paid_by IS NOT NULL
            UNION ALL
            SELECT grant_number, tokens FROM charges_%1$s
        ) AS paid GROUP BY grant_number
        ON CONFLICT (grant_number) DO UPDATE SET tokens = purged.tokens + excluded.tokens', week);
    EXECUTE format('SELECT count(*) FROM usage_%s', week) INTO records;
    EXECUTE format('DROP TABLE usage_%1$s, charges_%1$s', week);
    RETURN records;
END $$;

-- Kept when records are purged. `cost` is that of the requests whose prices were known, `cost_paid`
-- the part of it that grants of money paid.
CREATE TABLE totals (
    key bigint NOT NULL REFERENCES keys (number), model text COLLATE "C" NOT NULL,
    requests bigint NOT NULL, input bigint NOT NULL, cache_read bigint NOT NULL,
    cache_write bigint NOT NULL, output bigint NOT NULL,
    charged bigint NOT NULL, overdraft bigint NOT NULL, cost bigint NOT NULL,
    cost_paid bigint NOT NULL,
    PRIMARY KEY (key, model)
);

CREATE TABLE quarantine (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL, record bytea NOT NULL, cause text NOT NULL
);
-- Recovery can find a record twice. A record may be longer than an entry of an index.
CREATE UNIQUE INDEX quarantine_once ON quarantine (sha256(record), md5(cause));

CREATE TABLE owned (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE, key text NOT NULL, provider text NOT NULL,
    credential text NOT NULL, at bigint NOT NULL, tokens bigint, request text, tariff text
);
CREATE INDEX owned_by_time ON owned (at);

CREATE TABLE memory (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE, key text NOT NULL, at bigint NOT NULL, bytes bigint NOT NULL,
    previous text, response_checksum bigint NOT NULL, input_checksum bigint NOT NULL,
    response bytea NOT NULL, input bytea NOT NULL
);
CREATE INDEX memory_by_key ON memory (key, number);
CREATE INDEX memory_by_time ON memory (at);

-- Bytes of each key's rows; of all rows under the empty name. A transaction that changes `memory`
-- locks the row of the empty name first.
CREATE TABLE memory_bytes (key text PRIMARY KEY, bytes bigint NOT NULL);
INSERT INTO memory_bytes (key, bytes) VALUES ('', 0);

CREATE FUNCTION memory_row_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_bytes AS counted (key, bytes) VALUES (NEW.key, NEW.bytes)
        ON CONFLICT (key) DO UPDATE SET bytes = counted.bytes + excluded.bytes;
    UPDATE memory_bytes SET bytes = bytes + NEW.bytes WHERE key = '';
    RETURN NULL;
END $$;
CREATE TRIGGER memory_row_counted AFTER INSERT ON memory
    FOR EACH ROW EXECUTE FUNCTION memory_row_counted();

CREATE FUNCTION memory_row_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory_bytes SET bytes = bytes - OLD.bytes WHERE key IN (OLD.key, '');
    DELETE FROM memory_bytes WHERE key = OLD.key AND bytes <= 0;
    RETURN NULL;
END $$;
CREATE TRIGGER memory_row_gone AFTER DELETE ON memory
    FOR EACH ROW EXECUTE FUNCTION memory_row_gone();
