-- Have a waiting job be due at another time; the caller touches its lane. Index: the primary key.
update task
set due_at = ?4
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 0;
