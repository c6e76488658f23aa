-- Find the record of a job for its holder. Index: the primary key.
-- No twin: PostgreSQL reads all records of a lease at once.
select {Job}
from job
where environment = :environment
    and id = :id;
