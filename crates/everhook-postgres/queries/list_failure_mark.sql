-- List the marks of the failure groups of endpoints. Index: the primary key.
-- Differs: many endpoints at once.
select failure_mark.endpoint, failure_mark.class, failure_mark.state, failure_mark.note, failure_mark.marked_at
from unnest(:wanted)
    join everhook.failure_mark on failure_mark.environment = any (array[wanted.environment])
        and failure_mark.endpoint = wanted.id;
