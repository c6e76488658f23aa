-- Whether this very attempt of a job was settled before: a repeated settlement finds its own row. Index: the primary key.
select 1
from job_attempt
where environment = ?1
    and job = ?2
    and task = ?3
    and epoch = ?4
    and id = ?5;
