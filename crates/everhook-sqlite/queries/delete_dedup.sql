-- Give a key back that was taken in this transaction for something that was not accepted. Index: the primary key.
delete from dedup
where environment = ?1
    and scope = ?2
    and hash = ?3
    and object = ?4;
