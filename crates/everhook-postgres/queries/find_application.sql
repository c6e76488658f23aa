-- An application by id. Index: the primary key.
select {Application}, deleted_at
from everhook.application
where environment = :environment
    and id = :id;
