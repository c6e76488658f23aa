-- Close a session. Index: the primary key.
update everhook.session
set closed_at = :now
where id = :id
    and closed_at is null;
