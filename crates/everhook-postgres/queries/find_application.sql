-- An application by id. Index: the primary key.
select id, uid, name, throttle_rate, metadata, created_at, updated_at, revision, deleted_at
from everhook.application
where environment = $1
    and id = $2;
