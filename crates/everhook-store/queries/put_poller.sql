-- Store the last position of a locked poller. Index: the primary key.
update everhook.poller
set position = :position
where environment = :environment
    and endpoint = :endpoint;
