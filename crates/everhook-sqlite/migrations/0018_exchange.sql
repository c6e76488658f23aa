-- The steps of a delivery's request and the head of its reply, as JSON; null if nothing was sent. Additive: an older
-- binary logs attempts without it.
alter table attempt add column exchange text;
