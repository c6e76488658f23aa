-- Make a lane ready no later than a task of it is due, and say that new ones wait. Index: the primary key.
-- Differs: no lock against a concurrent drain, because there is one writer; no floor, because what was taken leaves the index at once.
update lane
set next_due = min(next_due, ?3),
    waiting = max(waiting, ?4)
where environment = ?1
    and id = ?2
    and (next_due > ?3 or waiting < ?4);
