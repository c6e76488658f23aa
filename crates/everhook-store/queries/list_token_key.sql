-- List the keys that sign tokens, newest first. Keys are few.
select {TokenKey}
from everhook.token_key
order by created_at desc, id desc;
