-- Let nothing of a lane start before this; never shortens a hold. Index: the primary key.
update lane
set hold_until = ?3
where environment = ?1
    and id = ?2
    and hold_until < ?3;
