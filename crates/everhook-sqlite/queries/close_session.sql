-- Close a session; its tasks may be reclaimed from now on. Index: the primary key.
update session
set closed_at = :now
where id = :id
    and closed_at is null;
