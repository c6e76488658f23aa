-- Write the counts of a node, over those that it wrote before. Index: the primary key.
insert into traffic (environment, span, start, source, counts)
values (:environment, :span, :start, :source, :counts)
on conflict (environment, span, start, source) do update
set counts = excluded.counts;
