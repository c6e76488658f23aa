-- Write a run of a schedule, started or left out.
insert into schedule_run (environment, schedule, id, nominal, at, kind, object)
values (:environment, :schedule, :id, :nominal, :at, :kind, :object);
