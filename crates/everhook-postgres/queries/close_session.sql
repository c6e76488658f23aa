-- Close a session. Index: the primary key.
update everhook.session
set closed_at = everhook.now_us()
where id = :id
    and closed_at is null;
