-- An application by id, deleted or not. Index: the primary key.
select id, uid, name, throttle_rate, metadata, created_at, updated_at, revision, deleted_at
from application
where environment = ?1
    and id = ?2;
