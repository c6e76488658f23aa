-- Flag a leased job: whoever holds it learns at the next heartbeat. Index: the primary key.
update task
set cancel = 1
where environment = ?1
    and subject = ?2
    and id = ?3;
