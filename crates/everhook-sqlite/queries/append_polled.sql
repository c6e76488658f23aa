-- Add a message for a polled endpoint, without a position.
insert into polled (environment, endpoint, message, due_at)
values (:environment, :endpoint, :message, :due_at);
