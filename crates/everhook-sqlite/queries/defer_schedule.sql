-- Look at a schedule later that cannot be read: it may be of a later version. Index: the primary key.
update schedule
set look_at = ?3
where environment = ?1
    and name = ?2;
