-- Replace the sealed answer of a request, unless it was changed in the meantime. Index: the primary key.
update everhook.request
set answer = :sealed
where environment = :environment
    and hash = :hash
    and answer = :old;
