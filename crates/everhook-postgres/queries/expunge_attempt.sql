-- Remove what is kept of a reply; clients of the API know the word that stands for it. Index: the primary key, by its beginning.
update everhook.attempt
set reply = 'EXPUNGED'
where kind = 0
    and environment = :environment
    and subject = :message
    and id = :id;
