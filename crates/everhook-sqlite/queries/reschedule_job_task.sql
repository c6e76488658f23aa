-- Reschedule a pending or dead job, possibly with fresh tries; the caller updates its lane. Index: the primary key.
-- A pending or dead task with a limit group is a delivery of an ordered lane, which keeps its place.
-- Differs: one row at a time.
update task
set state = 0,
    due_at = case when limit_group is null then ?4 else due_at end,
    tries = case when ?5 then 0 else tries end,
    crashes = case when ?5 then 0 else crashes end,
    cancel = case when ?5 then 0 else cancel end
where environment = ?1
    and subject = ?2
    and id = ?3
    and state <> 1;
