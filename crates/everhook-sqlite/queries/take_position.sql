-- Take the next position of an ordered lane. Index: the primary key. It is later than all earlier ones, whatever the
-- clock says: a clock that was set back moves no message before another one.
-- Other deliveries, such as those of a replay, take a position only where the lane is ahead of the clock.
-- Differs: one position at a time, without locks, because there is one writer.
update lane
set last_position = max(last_position + 1, :now)
where environment = :environment
    and id = :lane
    and (:is_always or last_position >= :now)
returning last_position;
