-- Store the last position of a locked poller. Index: the primary key.
update poller
set position = :position
where environment = :environment
    and endpoint = :endpoint;
