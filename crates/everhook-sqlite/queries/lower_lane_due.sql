-- Lower the due time of a lane to that of a task, and mark it as waiting if new deliveries wait. Index: the primary
-- key. Every transaction that leaves a pending task behind runs this.
-- Differs: no lock, because there is one writer, so no lease can find the lane empty in between. No floor, because a
-- leased task leaves the index at once.
update lane
set next_due = min(next_due, :due_at),
    waiting = max(waiting, :waits)
where environment = :environment
    and id = :lane
    and (next_due > :due_at or waiting < :waits);
