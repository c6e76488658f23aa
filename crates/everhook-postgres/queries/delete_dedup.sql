-- Release keys that this transaction took for an object that is not accepted. Index: the primary key.
-- Differs: many rows at once.
delete from everhook.dedup as held
using unnest(:unwanted)
where held.environment = any (array[unwanted.environment])
    and held.scope = unwanted.scope
    and held.hash = unwanted.hash;
