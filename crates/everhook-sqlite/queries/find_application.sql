-- An application by id, deleted or not. Index: the primary key.
select {Application}, deleted_at
from application
where environment = :environment
    and id = :id;
