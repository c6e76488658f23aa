-- List schedules by id. Index: the primary key.
-- No twin: SQLite reads them one by one, with `find_resource`.
select {resource: ResourceRow}
from unnest(:wanted)
    cross join lateral (
        select resource.*
        {include resource_by_id; environment = wanted.environment; kind = 4; id = wanted.id}
        limit 1 -- one lookup by key per row, whatever the statistics say
    ) as resource;
