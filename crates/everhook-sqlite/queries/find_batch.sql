-- Find one batch. Index: the primary key.
-- Differs: also used before a change, because there is one writer.
select {BatchRecord}
from batch
where environment = :environment
    and id = :id;
