-- Find endpoints with their applications, by the ids of the endpoints alone. Indexes: the primary keys of lane and
-- resource. `offset 0` keeps each step a look-up by key, whatever the statistics say.
-- Differs: many rows at once.
select {endpoint: Endpoint}, {application: Application}
from unnest(:wanted)
    cross join lateral (
        select lane.environment, lane.id, lane.application
        from everhook.lane
        where lane.environment = wanted.environment
            and lane.id = wanted.id
        offset 0
    ) as lane
    cross join lateral (
        select *
        from everhook.resource
        where resource.environment = lane.environment
            and resource.kind = 1
            and resource.parent = lane.application
            and resource.id = lane.id
            and resource.deleted_at is null
        offset 0
    ) as endpoint
    cross join lateral (
        select *
        {include resource_by_id; environment = lane.environment; kind = 0; id = lane.application}
        offset 0
    ) as application;
