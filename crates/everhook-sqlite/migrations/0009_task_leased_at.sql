-- When a task was leased, for the log of attempts. None: it was inserted already leased, and is due since then.
alter table task add column leased_at integer;
