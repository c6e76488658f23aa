-- Hold lanes until their limits allow more deliveries. Index: the primary key. The lease has locked the lanes.
-- Differs: many lanes at once.
update everhook.lane
set hold_until = used.until,
    hold_kind = used.kind
from unnest(:used)
where lane.environment = any (array[used.environment])
    and lane.id = used.id;
