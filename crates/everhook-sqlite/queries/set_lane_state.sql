-- Open or hold a lane; a closing lane stays closing. Index: the primary key.
update lane
set state = ?3
where environment = ?1
    and id = ?2
    and state <> 2;
