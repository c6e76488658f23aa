-- Delete an application; its uid is free again. Index: the primary key.
update everhook.application
set deleted_at = everhook.now_us(),
    revision = revision + 1
where environment = :environment
    and id = :id
    and deleted_at is null;
