-- End a tenure. Index: the primary key.
update everhook.session
set closed_at = everhook.now_us()
where id = $1
    and closed_at is null;
