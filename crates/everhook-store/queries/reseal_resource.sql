-- Replace a sealed secret, unless it was changed in the meantime. Its content stays the same, so that the revision and
-- caches do, too. Index: the primary key.
update everhook.resource
set spec = :sealed
where environment = :environment
    and kind = :kind
    and parent = :parent
    and id = :id
    and spec = :old;
