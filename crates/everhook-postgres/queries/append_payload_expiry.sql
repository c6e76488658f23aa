-- Remember when to erase payloads.
-- Differs: many rows at once.
insert into everhook.payload_expiry (due_at, environment, application, message)
select due_at, environment, application, message
from unnest($1::int8[], $2::int[], $3::bytea[], $4::bytea[]) as fresh (due_at, environment, application, message);
