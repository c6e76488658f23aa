-- Change a schedule whose revision is still the given one; its state begins anew. Index: the primary key.
update schedule
set spec = ?4,
    starts = ?5,
    paused = ?6,
    next = ?7,
    queued = ?8,
    look_at = ?9,
    updated_at = ?10,
    revision = revision + 1
where environment = ?1
    and name = ?2
    and revision = ?3;
