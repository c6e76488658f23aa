-- List runs of schedules, except the latest of each. Scans runs, which are few; index: the primary key.
-- No twin: a reader selects them while the writer does other work.
select environment, schedule, id, 0
from (
    select environment, schedule, id, at, row_number() over (partition by environment, schedule order by id desc) as place
    from schedule_run
)
where place > ?2
    and at < ?1
order by id;
