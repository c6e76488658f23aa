-- Attempts to deliver messages of an environment.
select
    {attempt: Attempt}
from everhook.attempt
where attempt.kind = 0
    and attempt.environment = :environment
