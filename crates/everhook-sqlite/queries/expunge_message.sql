-- Erase the payload of a message. Index: the primary key.
update message
set payload = null
where environment = ?1
    and application = ?2
    and id = ?3;
