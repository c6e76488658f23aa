-- Remove a schedule. Index: the primary key.
delete from schedule
where environment = ?1
    and name = ?2
returning id;
