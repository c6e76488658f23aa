-- Remove the record of a job. Index: the primary key.
delete from job
where environment = ?1
    and id = ?2;
