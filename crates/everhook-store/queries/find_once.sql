-- Find a once-slot as users see it. Indexes: the primary key, once_suppression_slot.
{include once_slot}
    and key = :key;
