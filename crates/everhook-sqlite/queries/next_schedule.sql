-- Schedules that are to be looked at, those that wait longest first. Index: schedule_look.
-- Differs: no locks, because there is one writer.
select environment, name, id, spec, starts, paused, next, queued, look_at, last_job, created_at, updated_at, revision
from schedule
where look_at <= ?1
    and look_at < 9223372036854775807
order by look_at
limit ?2;
