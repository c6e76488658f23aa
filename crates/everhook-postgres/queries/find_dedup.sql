-- Find the objects that hold dedup keys. Index: the primary key.
-- Differs: many rows at once.
select held.environment, held.scope, held.hash, held.object, held.body
from unnest(:wanted)
    join everhook.dedup as held on held.environment = any (array[wanted.environment])
        and held.scope = wanted.scope
        and held.hash = wanted.hash;
