-- Find one batch. Index: the primary key.
-- Differs: also used before a change, because there is one writer.
select id, application, name, prefix, metadata, created_at, intake, phase, announced, pending, succeeded, dead, cancelled, skipped
from batch
where environment = ?1
    and id = ?2;
