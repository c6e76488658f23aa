-- Lower the due time of a lane to that of a task, and mark it as waiting if new deliveries wait. Index: the primary
-- key. Every transaction that leaves a pending task behind runs this.
-- Differs: no lock, because there is one writer, so no lease can find the lane empty in between. No floor, because a
-- leased task leaves the index at once.
update lane
set next_due = min(next_due, ?3),
    waiting = max(waiting, ?4)
where environment = ?1
    and id = ?2
    and (next_due > ?3 or waiting < ?4);
