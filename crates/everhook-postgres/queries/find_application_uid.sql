-- An application by uid. Index: application_uid.
select id, uid, name, throttle_rate, metadata, created_at, updated_at, revision, deleted_at
from everhook.application
where environment = $1
    and uid = $2
    and uid is not null
    and deleted_at is null;
