-- Give positions to due messages of a poller. Indexes: polled_waiting, the primary key.
with waiting as materialized (
    select due.message, row_number() over (order by due.due_at, due.message) as place
    from (
        select message, due_at
        {include polled_due}
    ) as due
)
update polled
set position = :base + waiting.place
from waiting
where polled.environment = :environment
    and polled.endpoint = :endpoint
    and polled.message = waiting.message;
