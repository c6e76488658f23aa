-- List consumers that were not used for a long time. Index: poll_consumer_used.
-- No twin: a reader selects them while the writer does other work; `prune_poll_consumer` checks again.
select environment, endpoint, name, 0
from poll_consumer
where used_at < ?1
order by used_at;
