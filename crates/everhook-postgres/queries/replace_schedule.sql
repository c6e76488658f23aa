-- Change a schedule that was read at a revision; it begins anew. Index: the primary key.
update everhook.schedule
set spec = :spec,
    starts = :starts,
    paused = :paused,
    next = :next,
    queued = :queued,
    look_at = :look_at,
    updated_at = :now,
    revision = revision + 1
where environment = :environment
    and name = :name
    and revision = :revision
returning {ScheduleRow};
