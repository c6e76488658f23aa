-- Log the calls that slots have suppressed in this transaction.
-- Differs: many rows at once.
insert into everhook.once_suppression (environment, application, key, winner, calls, created_at)
select environment, application, key, winner, calls, $6
from unnest($1::int[], $2::bytea[], $3::text[], $4::bytea[], $5::bigint[])
    as suppressed (environment, application, key, winner, calls);
