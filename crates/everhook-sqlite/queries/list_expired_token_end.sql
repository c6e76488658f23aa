-- List ends of tokens that have all expired. Index: token_end_forget.
-- No twin: a reader selects them while the writer does other work; `prune_token_end` checks again.
select environment, application, subject, issued_until, 0
from token_end
where forget_at <= ?1
    and forget_at < 9223372036854775807;
