-- List entries of pollers by their age in whole days. Index: polled_day.
-- No twin: a reader selects them while the writer does other work.
select environment, endpoint, message, 0
from polled
where due_at / 86400000000 < ?1 / 86400000000
order by due_at / 86400000000;
