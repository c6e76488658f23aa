-- An application by the user's own id. Index: application_uid.
select {Application}
from application
where environment = :environment
    and uid = :uid
    and deleted_at is null;
