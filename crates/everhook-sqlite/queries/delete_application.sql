-- Delete an application; its row stays, its uid is free. Index: the primary key.
update application
set deleted_at = :now,
    revision = revision + 1
where environment = :environment
    and id = :id
    and deleted_at is null;
