-- List open tasks in a range of subjects, among which a list finds deliveries. Index: the primary key. Tasks of jobs
-- are read, too, so that the limit bounds the cost. With a class, the last attempt of each delivery is compared with
-- it.
select
    task.subject, task.kind, task.lane, task.state,
    case
        when :class is null then 1
        else :class is (
            select attempt.class
            from attempt
            where attempt.environment = task.environment
                and attempt.subject = task.subject
                and +attempt.endpoint = task.lane
            order by attempt.task desc, attempt.epoch desc
            limit 1
        )
    end
from task
where task.environment = :environment
    and task.subject > :above
    and task.subject < :below
order by task.subject :order
limit :limit;
