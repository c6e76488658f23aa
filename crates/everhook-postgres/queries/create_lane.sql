-- Add the lane of a new endpoint.
insert into everhook.lane (environment, id, application, state)
values (:environment, :id, :application, :state)
on conflict do nothing;
