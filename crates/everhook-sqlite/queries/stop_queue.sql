-- Stop the queue of a lane whose target answered 410, unless it is paused. Indexes: the primary key, resource_name.
-- Differs: one queue; `stop_group` stops its lane group.
update resource
set state = 2,
    updated_at = :now,
    revision = revision + 1
where environment = :environment
    and kind = 3
    and parent = x''
    and name = (
        select queue
        from lane
        where environment = :environment
            and id = :lane
    )
    and state = 0
    and deleted_at is null
returning id;
