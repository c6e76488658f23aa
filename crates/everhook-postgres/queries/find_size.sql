-- Find the sizes of all weeks of messages and attempts, with their indexes. Index: those of the catalog.
-- Differs: the size of each week, because only whole weeks return their space.
select relation.relname::text, pg_catalog.pg_total_relation_size(relation.oid)
from pg_catalog.pg_inherits as child
    join pg_catalog.pg_class as relation on relation.oid = child.inhrelid
where child.inhparent in (pg_catalog.to_regclass('everhook.message'), pg_catalog.to_regclass('everhook.attempt_delivery'));
