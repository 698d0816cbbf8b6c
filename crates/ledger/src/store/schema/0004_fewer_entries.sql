-- The grant that paid for all of a request, where one did: most of them. It paid what was
-- charged beyond the overdraft. Where several paid, and in records from before, the pieces
-- are in `charges`.
ALTER TABLE usage ADD COLUMN paid_by INTEGER REFERENCES grants (number);

-- Nearly every request is completed: those are found by time, and cost no entry here.
DROP INDEX usage_by_state;
CREATE INDEX usage_by_state ON usage (key, state, at, number) WHERE state <> 'completed';
