-- Why the service chose the model that served, where the request left the choice to it.
ALTER TABLE usage ADD COLUMN route_reason TEXT;
