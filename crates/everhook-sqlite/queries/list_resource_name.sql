-- List resources in a range of names, up to a state, with the states of schedules. Indexes: resource_name, the primary
-- key.
{include resource_named};
