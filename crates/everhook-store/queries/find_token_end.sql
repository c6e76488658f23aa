-- Find the earliest end of a token: of all tokens, of its session, or of itself. Index: the primary key.
select ends_at
from everhook.token_end
where environment = :environment
    and application = :application
    and subject in (:all, :session, :token)
    and issued_until >= :issued_at
order by ends_at
limit 1;
