-- Store the times at which payloads are to be erased.
-- Differs: many rows at once.
insert into everhook.payload_expiry (due_at, environment, application, message)
select due_at, environment, application, message
from unnest(:fresh);
