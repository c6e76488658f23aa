-- Remove what is kept of a reply. Index: the primary key, over the few attempts that a message has.
update attempt
set reply = x''
where environment = ?1
    and subject = ?2
    and id = ?3;
