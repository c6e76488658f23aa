-- Release a key that this transaction took for an object that is not accepted. Index: the primary key.
delete from dedup
where environment = ?1
    and scope = ?2
    and hash = ?3
    and object = ?4;
