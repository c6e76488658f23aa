-- Count the attempts to an endpoint in a period by result, and its open deliveries. Indexes: attempt_endpoint,
-- task_ready, task_owner. Reads the newest attempts of the range of ids up to a bound; the leased tasks are as many as
-- the nodes have places.
with newest as materialized (
    select attempt.class, attempt.started_at >= :since and attempt.started_at < :until as is_counted
    from everhook.attempt
    where attempt.kind = 0
        and attempt.environment = :environment
        and attempt.endpoint = :endpoint
        and attempt.id > :above
        and attempt.id < :below
    order by attempt.id desc
    limit :rows_max
)
select
    (select count(*) from newest where is_counted and class = 0),
    (select count(*) from newest where is_counted and class not in (0, 12)),
    (select count(*) from newest where is_counted and class = 12),
    (
        select count(*)
        from (
            {include task_of_lane; environment = :environment; lane = :endpoint; state = 0}
            limit :rows_max
        ) as pending
    ),
    (
        select count(*)
        from (
            select 1
            from everhook.task
            where task.state = 1
                and task.owner is not null
                and task.environment = :environment
                and task.lane = :endpoint
            limit :rows_max
        ) as sending
    ),
    (select count(*) >= :rows_max from newest);
