-- List expired answers of requests. Index: request_expires.
-- No twin: a reader selects them while the writer does other work; `prune_request` checks again.
select environment, hash, 0
from request
where expires_at <= ?1
order by expires_at;
