-- Remove what is kept of a reply; clients of the API know the word that stands for it. Index: the primary key, by its beginning.
update everhook.attempt
set reply = 'EXPUNGED'
where environment = $1
    and subject = $2
    and id = $3;
