-- Extend a session by its lease, unless it is closed. Index: the primary key.
update everhook.session
set lease_until = everhook.now_us() + lease_us
where id = :id
    and closed_at is null
returning lease_until - lease_us;
