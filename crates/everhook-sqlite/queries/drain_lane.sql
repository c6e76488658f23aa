-- Say when a lane has something due again, after it was looked at. Index: the primary key.
-- Differs: no lock, and the time is known from the look; there is one writer.
update lane
set next_due = ?3
where environment = ?1
    and id = ?2
    and next_due <> ?3;
