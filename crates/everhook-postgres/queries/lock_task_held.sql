-- Lock the task of a job that is held. Index: the primary key. Until this transaction ends, no other session can take
-- the job over.
-- No twin: SQLite has one writer.
select id
from everhook.task
where environment = :environment
    and subject = :job
    and owner is not null
for update;
