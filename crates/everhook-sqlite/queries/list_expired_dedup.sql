-- List expired keys. Scans as far as it is read: an index would make every message with a key more expensive.
-- No twin: a reader selects them while the writer does other work; `prune_dedup` checks again.
select environment, scope, hash, 0
from dedup
where expires_at <= ?1;
