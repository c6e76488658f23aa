-- Delete endpoints of an application between two ids; the rows stay, their uids are free. Index: the primary key.
update endpoint
set deleted_at = ?5,
    revision = revision + 1
where environment = ?1
    and application = ?2
    and id >= ?3
    and id <= ?4
    and deleted_at is null
returning id;
