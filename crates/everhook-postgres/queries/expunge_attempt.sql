-- Remove what is kept of a reply. Index: the primary key, by its beginning.
update everhook.attempt
set reply = ''
where environment = $1
    and subject = $2
    and id = $3;
