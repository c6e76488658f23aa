-- Release the key of a request that failed, if its claim is still held. Index: the primary key.
delete from everhook.request
where environment = :environment
    and hash = :hash
    and holder = :holder
    and status is null;
