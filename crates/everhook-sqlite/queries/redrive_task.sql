-- Put a dead task back to pending with fresh tries. Index: the primary key.
-- Differs: one row at a time, chosen by `next_dead`.
update task
set state = 0,
    due_at = ?4,
    tries = 0,
    crashes = 0
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 2;
