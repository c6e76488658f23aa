-- Open or hold a lane; one that is closing stays so. Index: the primary key.
update everhook.lane
set state = $3
where environment = $1
    and id = $2
    and state not in ($3, 2);
