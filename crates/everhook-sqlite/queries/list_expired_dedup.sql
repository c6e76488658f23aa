-- Keys that have expired. Scans as far as it is read: an index would cost every message that has a key.
-- No twin: chosen while the writer does other work; `prune_dedup` asks again.
select environment, scope, hash, 0
from dedup
where expires_at <= ?1;
