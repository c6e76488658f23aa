-- Finds the background tasks of an environment: jobs of the server's own environment whose concurrency key is the number
-- of the environment. A binary that does not know this index ignores it.
create index job_background on job (concurrency_key, id)
where environment = 0
    and queue = 'everhook.background';
