-- An application by the user's own id. Index: application_uid.
select id, uid, name, throttle_rate, metadata, created_at, updated_at, revision
from application
where environment = ?1
    and uid = ?2
    and deleted_at is null;
