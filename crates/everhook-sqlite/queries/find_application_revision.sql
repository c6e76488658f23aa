-- The revision of an application, to know whether what a cache has of it still holds. Index: the primary key.
select revision
from application
where environment = ?1
    and id = ?2
    and deleted_at is null;
