-- Mark lanes as empty; first half, completed by `recompute_lane_due`. Index: the primary key.
-- The full lock conflicts with the key share lock of every transaction that is adding a task. Such a lane is skipped:
-- it stays ready, and the next lease checks it again.
-- Two orders matter. The lock must be held before the statement starts that searches the next task: a task that commits
-- in between would be missed. And this must be the first write of the lease to the lane: a key share lock with an older
-- snapshot does not wait for a committed write that was not exclusive, and would return the lane as it was before.
-- Differs: SQLite has one writer and needs no lock.
with free as materialized (
    select lane.environment, lane.id
    from unnest(:wanted)
        join everhook.lane on lane.environment = any (array[wanted.environment])
            and lane.id = wanted.id
    for update of lane skip locked
)
update everhook.lane
set next_due = 9223372036854775807,
    floor = 9223372036854775807
from free
where lane.environment = any (array[free.environment])
    and lane.id = free.id;
