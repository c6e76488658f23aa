-- Write the counts of a node, over those that it wrote before. Index: the primary key.
-- Differs: many rows at once, in key order.
insert into everhook.traffic (environment, span, start, source, counts)
select environment, span, start, source, counts
from unnest(:counted)
order by environment, span, start, source
on conflict (environment, span, start, source) do update
set counts = excluded.counts;
