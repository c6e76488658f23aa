-- Once-slots that nobody has claimed or reset since. Scans: they are few beside messages.
-- No twin: chosen while the writer does other work; `prune_once` asks again.
select environment, application, key, 0
from once_slot
where updated_at < ?1
order by updated_at;
