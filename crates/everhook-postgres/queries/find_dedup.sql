-- Who holds these keys. Index: the primary key.
-- Differs: many rows at once.
select held.environment, held.scope, held.hash, held.object, held.body
from unnest($1::int[], $2::smallint[], $3::bytea[]) as wanted (environment, scope, hash)
    join everhook.dedup as held on held.environment = any (array[wanted.environment])
        and held.scope = wanted.scope
        and held.hash = wanted.hash;
