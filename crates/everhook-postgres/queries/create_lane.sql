-- Add the lane of a new endpoint.
insert into everhook.lane (environment, id, application, state)
values ($1, $2, $3, $4)
on conflict do nothing;
