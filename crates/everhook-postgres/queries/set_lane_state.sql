-- Open or hold a lane; one that is closing stays so. Index: the primary key.
update everhook.lane
set state = :state
where environment = :environment
    and id = :id
    and state not in (:state, 2);
