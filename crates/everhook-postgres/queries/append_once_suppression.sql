-- Log the calls that once-slots suppressed in this transaction.
-- Differs: many rows at once.
insert into everhook.once_suppression (environment, application, key, winner, calls, created_at)
select environment, application, key, winner, calls, :created_at
from unnest(:suppressed);
