-- List the marks of the failure groups of an endpoint. Index: the primary key.
select endpoint, class, state, note, marked_at
from failure_mark
where environment = :environment
    and endpoint = :endpoint;
