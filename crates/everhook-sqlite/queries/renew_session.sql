-- Extend a session by its lease, unless someone closed it. Index: the primary key.
update session
set lease_until = ?2 + lease_us
where id = ?1
    and closed_at is null;
