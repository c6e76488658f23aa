-- Log a run of a schedule, or one that was left out.
insert into schedule_run (environment, schedule, id, nominal, at, kind, object)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7);
