-- List an application's once-slots in a range of keys. Indexes: the primary key, once_suppression_slot.
{include once_slot}
    and key > :above
    and key < :below
order by key :order
limit :limit;
