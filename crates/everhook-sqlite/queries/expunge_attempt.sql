-- Remove what is kept of a reply; clients of the API know the word that stands for it. Index: the primary key, over the few attempts that a message has.
update attempt
set reply = cast('EXPUNGED' as blob)
where environment = ?1
    and subject = ?2
    and id = ?3;
