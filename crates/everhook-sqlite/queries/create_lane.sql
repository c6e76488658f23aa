-- Add the lane of a new endpoint: open or held, and empty.
insert into lane (environment, id, application, feed, state)
values (:environment, :id, :application, x'00', :state)
on conflict do nothing;
