-- List once-slots without a claim or reset since. Scans: they are fewer than messages.
-- No twin: a reader selects them while the writer does other work; `prune_once` checks again.
select environment, application, key, 0
from once_slot
where updated_at < ?1
order by updated_at;
