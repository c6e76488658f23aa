-- Close a session; its tasks may be reclaimed from now on. Index: the primary key.
update session
set closed_at = ?2
where id = ?1
    and closed_at is null;
