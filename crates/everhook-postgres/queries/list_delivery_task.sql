-- List open tasks in a range of subjects, among which a list finds deliveries. Index: the primary key. Tasks of jobs
-- are read, too, so that the limit bounds the cost. With a class, the last attempt of each delivery is compared with
-- it. `offset 0` keeps the planner from the index of the endpoint's attempts.
select
    task.subject, task.kind, task.lane, task.state,
    case
        when :class::smallint is null then true
        else :class is not distinct from (
            select attempt.class
            from (
                select attempt.class, attempt.endpoint, attempt.task, attempt.epoch
                {include attempt_of_message; environment = task.environment; subject = task.subject}
            ) as attempt
            where attempt.endpoint = task.lane
            limit 1
        )
    end
from everhook.task
where task.environment = :environment
    and task.subject > :above
    and task.subject < :below
order by task.subject :order
limit :limit;
