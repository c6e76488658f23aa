-- Extend a session by its lease, unless it is closed. Index: the primary key.
update session
set lease_until = :now + lease_us
where id = :id
    and closed_at is null;
