-- The open task, last attempt and output of a job.
-- No twin: SQLite lists ids, and finds each job by itself.
{task: Task}, task.state, task.owner, coalesce(task.leased_at, task.due_at),
{attempt: JobAttempt},
output.progress, output.progress_text, output.result, output.result_bytes
