-- What few messages have, as JSON: when they are to be delivered, until when their payload is kept, what it is.
alter table message add column rest text;
