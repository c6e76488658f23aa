-- Delete an application; its uid is free again. Index: the primary key.
update everhook.application
set deleted_at = everhook.now_us(),
    revision = revision + 1
where environment = $1
    and id = $2
    and deleted_at is null;
