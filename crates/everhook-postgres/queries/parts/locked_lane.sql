-- Lock lanes in key order. Index: the primary key.
-- No twin: SQLite has one writer.
unnest(:wanted)
    join everhook.lane on lane.environment = any (array[wanted.environment])
        and lane.id = wanted.id
order by wanted.environment, wanted.id
for no key update of lane
