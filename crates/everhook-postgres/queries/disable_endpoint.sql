-- Disable endpoints whose receivers answered that they are gone, hold their lanes, and invalidate caches. Returns the
-- endpoints that were enabled. Index: the primary keys.
-- Differs: many rows at once, together with lanes and groups. The caller knows only the lane, whose id is the
-- endpoint's id. Groups are locked first and in key order, because every change of an endpoint locks its group first.
with lane as materialized (
    select lane.environment, lane.application, lane.id, 1::smallint as kind -- lets the join use the whole key
    from unnest(:wanted)
        join everhook.lane on lane.environment = any (array[wanted.environment])
            and lane.id = wanted.id
),
parent as materialized (
    select lane_group.environment, lane_group.id
    from (select distinct environment, application from lane) as owner
        join everhook.lane_group on lane_group.environment = any (array[owner.environment])
            and lane_group.id = owner.application
    order by lane_group.environment, lane_group.id
    for no key update of lane_group
),
gone as (
    update everhook.resource
    set state = 2,
        updated_at = everhook.now_us(),
        revision = resource.revision + 1
    from parent
        join lane on lane.environment = parent.environment
            and lane.application = parent.id
    where resource.environment = any (array[lane.environment])
        and resource.kind = lane.kind
        and resource.parent = lane.application
        and resource.id = lane.id
        and resource.state = 0
        and resource.deleted_at is null
    returning resource.environment, resource.parent, resource.id
),
told as (
    update everhook.lane_group
    set version = lane_group.version + 1
    from (select distinct environment, parent from gone) as changed
    where lane_group.environment = any (array[changed.environment])
        and lane_group.id = changed.parent
),
held as (
    update everhook.lane
    set state = 1
    from gone
    where lane.environment = any (array[gone.environment])
        and lane.id = gone.id
        and lane.state = 0
)
select environment, parent, id
from gone;
