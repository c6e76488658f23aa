-- Delete the due time of a payload; the caller erases the payload. Index: the primary key.
-- Differs: one row at a time, selected by `list_expired_payload`.
delete from payload_expiry
where due_at = ?1
    and environment = ?2
    and application = ?3
    and message = ?4;
