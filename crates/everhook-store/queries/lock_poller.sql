-- Return the last position of a poller, and create the poller if it is new. Index: the primary key.
insert into everhook.poller (environment, endpoint, position)
values (:environment, :endpoint, 0)
on conflict (environment, endpoint) do update
set position = poller.position
returning position;
