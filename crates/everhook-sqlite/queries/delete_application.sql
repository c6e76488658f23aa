-- Delete an application; its row stays, its uid is free. Index: the primary key.
update application
set deleted_at = ?3,
    revision = revision + 1
where environment = ?1
    and id = ?2
    and deleted_at is null;
