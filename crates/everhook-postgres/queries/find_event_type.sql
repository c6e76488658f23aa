-- An event type, archived or not. Index: the primary key.
select name, description, archived, deprecated, schemas, feature_flag, group_name, created_at, updated_at, revision
from everhook.event_type
where environment = $1
    and name = $2;
