-- Give a task up, fenced by holder and epoch. Index: the primary key, never task_owner.
update task
set state = 2,
    owner = null,
    tries = ?6,
    crashes = ?7
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 1
    and +owner = ?4
    and epoch = ?5;
