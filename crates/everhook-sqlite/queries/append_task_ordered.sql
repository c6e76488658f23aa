-- Write a new delivery of an ordered lane at its position. The position is the due time of a delivery without a key.
-- One with a key waits until `promote_task` makes it due.
-- Differs: one row at a time.
insert into task (
    environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, owner, cancel, state, order_key,
    order_position, order_blocks
)
values (
    :environment, :subject, :id, :lane, :kind, :trigger, :priority,
    case when :order_key is null then :position else 9223372036854775807 end, 0, 0, 0, null, 0, 0, :order_key,
    case when :order_key is not null then :position end, :blocks
);
