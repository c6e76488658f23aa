-- Add messages for polled endpoints, without positions.
-- Differs: many rows at once.
insert into everhook.polled (environment, endpoint, message, due_at)
select environment, endpoint, message, due_at
from unnest(:fresh);
