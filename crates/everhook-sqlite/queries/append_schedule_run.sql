-- Write a run of a schedule, started or left out.
insert into schedule_run (environment, schedule, id, nominal, at, kind, object)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7);
