-- Add an event type, unless its name is taken.
insert into everhook.event_type
    (environment, name, description, archived, deprecated, schemas, feature_flag, group_name, created_at, updated_at, revision)
select :environment, :name, :description, :archived, :deprecated, :schemas, :feature_flag, :group_name, clock.now, clock.now, 1
from (select everhook.now_us() as now) as clock
on conflict do nothing
returning {EventType};
