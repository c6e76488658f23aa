-- An application by uid. Index: application_uid.
select {Application}, deleted_at
from everhook.application
where environment = :environment
    and uid = :uid
    and uid is not null
    and deleted_at is null;
