-- Append a batch like `append_direct`, and take the permits of rate limits (`core::policy::rate::Booking`). `booked`
-- locks the lanes in key order and after the keys, like `append_once`. The lock may wait for a lease that uses the
-- permits. The statement is then undone, too. Batches without limited lanes use `append_direct`, because starting and
-- ending the executor takes longer with each part of a statement.
-- No twin: SQLite reads and writes in one process, so a cached plan would save nothing.
with {include direct_claim},
paced as materialized (
    select lane.environment, lane.id, lane.state, lane.waiting, agreed.now, booking.before_us, booking.span_us,
        greatest(lane.hold_until, agreed.now - booking.unused_us) as held_until
    from agreed
        cross join unnest(:booking)
        join everhook.lane on lane.environment = any (array[booking.environment])
            and lane.id = booking.id
    where agreed.yes
        and (select count(*) from taken) >= 0
    order by booking.environment, booking.id
    for no key update of lane
),
booked as (
    update everhook.lane
    set hold_until = paced.held_until + paced.span_us,
        hold_kind = 1
    from paced
    where lane.environment = any (array[paced.environment])
        and lane.id = paced.id
        and paced.state = 0
        and not paced.waiting
        and paced.held_until + paced.before_us <= paced.now
    returning 1
),
{include direct_rows}
select agreed.yes, agreed.now,
    everhook.expect(
        not agreed.yes
        or (
            cardinality(:wanted.environment) = (select count(*) from taken)
            and cardinality(:booking.environment) = (select count(*) from booked)
        )
    ) as undone
from agreed;
