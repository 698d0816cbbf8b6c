-- The input that a stored thing makes in a later request, in tokens; NULL: not known.
ALTER TABLE owned ADD COLUMN tokens INTEGER;
