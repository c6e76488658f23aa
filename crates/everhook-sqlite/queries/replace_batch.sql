-- Write the state of a batch. Index: the primary key.
-- Differs: one batch at a time.
update batch
set intake = ?3,
    phase = ?4,
    announced = ?5,
    pending = ?6,
    succeeded = ?7,
    dead = ?8,
    cancelled = ?9,
    skipped = ?10
where environment = ?1
    and id = ?2;
