-- Store the answer of a request whose claim is still held. Index: the primary key.
update everhook.request
set status = :status,
    answer = :answer,
    expires_at = :now + :kept_us
where environment = :environment
    and hash = :hash
    and holder = :holder
    and status is null;
