-- Write a new delivery of an ordered lane at its position. The position is the due time of a delivery without a key. One
-- with a key waits until `promote_task` makes it due.
-- Differs: one row at a time.
insert into task (
    environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, owner, cancel, state, order_key,
    order_position, order_blocks
)
values (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, case when ?9 is null then ?8 else 9223372036854775807 end, 0, 0, 0, null, 0, 0, ?9,
    case when ?9 is not null then ?8 end, ?10
);
