-- List payloads that are due to be erased, oldest first. Index: the primary key.
-- No twin: a reader selects them while the writer does other work.
select due_at, environment, application, message, 0
from payload_expiry
where due_at <= ?1
order by due_at;
