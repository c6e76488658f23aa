-- Tell caches that an endpoint of the application changes, and keep others from changing it until then. Index: the primary key.
update everhook.application
set revision = revision + 1
where environment = :environment
    and id = :id
    and deleted_at is null;
