-- Mark a failure group, over its earlier mark. Index: the primary key.
insert into everhook.failure_mark (environment, endpoint, class, state, note, marked_at)
values (:environment, :endpoint, :class, :state, :note, :now)
on conflict (environment, endpoint, class) do update
set state = excluded.state,
    note = excluded.note,
    marked_at = excluded.marked_at
returning marked_at;
