-- Remove a payload for good. Index: the primary key.
update everhook.message
set payload = null
where environment = $1
    and application = $2
    and id = $3;
