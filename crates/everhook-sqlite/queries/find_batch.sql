-- A batch. Index: the primary key.
-- Differs: also what is changed next is read so, because there is one writer.
select id, application, name, prefix, metadata, created_at, intake, phase, announced, pending, succeeded, dead, cancelled, skipped
from batch
where environment = ?1
    and id = ?2;
