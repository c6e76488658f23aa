-- New deliveries wait for a slot in it: what comes later must not overtake them.
alter table lane add column waiting integer not null default 0;
