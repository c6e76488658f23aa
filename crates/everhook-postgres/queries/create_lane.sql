-- Add the lane of a new endpoint.
insert into everhook.lane (environment, id, application, feed, state)
values (:environment, :id, :application, '\x00', :state)
on conflict do nothing;
