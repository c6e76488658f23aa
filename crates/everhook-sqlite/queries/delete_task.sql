-- Remove the task of a job that is not leased. Index: the primary key.
delete from task
where environment = ?1
    and subject = ?2
    and id = ?3
    and state <> 1;
