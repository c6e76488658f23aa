-- Release a key that this transaction took for an object that is not accepted. Index: the primary key.
delete from dedup
where environment = :environment
    and scope = :scope
    and hash = :hash
    and object = :object;
