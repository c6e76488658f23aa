-- Add a schedule, unless its name is taken. Index: the primary key.
insert into everhook.schedule
    (environment, id, name, spec, starts, paused, next, queued, look_at, created_at, updated_at, revision)
values (:environment, :id, :name, :spec, :starts, :paused, :next, :queued, :look_at, :now, :now, 1)
on conflict (environment, name) do nothing
returning {ScheduleRow};
