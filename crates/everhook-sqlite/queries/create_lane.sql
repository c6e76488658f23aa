-- Add the lane of a new endpoint: open or held, and empty.
insert into lane (environment, id, application, feed, state)
values (?1, ?2, ?3, x'00', ?4)
on conflict do nothing;
