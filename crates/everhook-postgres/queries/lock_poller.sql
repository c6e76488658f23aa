-- Lock a poller and return its last position. Index: the primary key. The lock lasts until new positions are committed,
-- so that positions become visible in their order.
insert into everhook.poller as held (environment, endpoint, position)
values (:environment, :endpoint, 0)
on conflict (environment, endpoint) do update
set position = held.position
returning held.position;
