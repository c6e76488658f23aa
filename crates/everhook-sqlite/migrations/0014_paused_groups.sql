-- Paused applications and queues, which every node lists every few seconds. Additive: an older binary does not use the
-- index.
create index lane_group_paused on lane_group (environment, id)
where state = 1;
