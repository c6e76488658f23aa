-- Forget the crashes of the earlier holders of a job. Index: the primary key of task.
update everhook.task
set crashes = 0
where environment = :environment
    and subject = :job
    and owner is not null;
