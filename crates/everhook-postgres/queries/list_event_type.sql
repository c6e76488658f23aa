-- Event types beyond a name. Index: the primary key.
select name, description, archived, deprecated, schemas, feature_flag, group_name, created_at, updated_at, revision
from everhook.event_type
where environment = $1
    and name > $2
    and name < $3
    and (not archived or $4)
order by name asc
limit $5;
