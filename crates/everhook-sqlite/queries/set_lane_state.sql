-- Open or hold a lane; a closing lane stays closing. Index: the primary key.
update lane
set state = :state
where environment = :environment
    and id = :id
    and state <> 2;
