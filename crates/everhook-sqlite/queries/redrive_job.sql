-- Put a dead job back to pending with fresh tries, due now; the caller touches its lane. Index: the primary key.
update task
set state = 0,
    due_at = ?4,
    tries = 0,
    crashes = 0,
    cancel = 0
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 2;
