-- Make a lane ready no later than a task of it is due. Index: the primary key.
-- Differs: no lock against a concurrent drain, because there is one writer.
update lane
set next_due = ?3
where environment = ?1
    and id = ?2
    and next_due > ?3;
