-- Attempts to deliver messages of an environment.
select {attempt: Attempt}
from attempt
where attempt.environment = :environment
