-- The attempts of a message, newest first. Index: the primary key. `offset 0` and the order of the key keep the planner
-- from the index of the endpoint.
-- No twin: SQLite needs no such hints.
from everhook.attempt
where attempt.kind = 0
    and attempt.environment = {environment}
    and attempt.subject = {subject}
order by attempt.task desc, attempt.epoch desc
offset 0
