-- Put a task back, fenced by holder and epoch. Index: the primary key, never task_owner.
update task
set state = 0,
    owner = null,
    due_at = ?6,
    tries = ?7,
    crashes = ?8
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 1
    and +owner = ?4
    and epoch = ?5;
