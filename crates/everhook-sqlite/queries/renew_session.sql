-- Extend a session by its lease, unless it is closed. Index: the primary key.
update session
set lease_until = ?2 + lease_us
where id = ?1
    and closed_at is null;
