-- Applications between two ids. Index: the primary key.
select id, uid, name, throttle_rate, metadata, created_at, updated_at, revision
from everhook.application
where environment = $1
    and id > $2
    and id < $3
    and deleted_at is null
order by id asc
limit $4;
