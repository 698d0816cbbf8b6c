-- The request that had a response made: by its record it is known whether the response has been
-- paid for. NULL: it is not known, and for what is no response.
ALTER TABLE owned ADD COLUMN request TEXT;
