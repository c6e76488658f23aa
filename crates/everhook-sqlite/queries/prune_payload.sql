-- Forget when a payload was due to be erased; the caller erases it. Index: the primary key.
-- Differs: one row at a time, chosen by `list_expired_payload`.
delete from payload_expiry
where due_at = ?1
    and environment = ?2
    and application = ?3
    and message = ?4;
