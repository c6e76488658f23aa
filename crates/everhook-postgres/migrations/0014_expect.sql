-- How a statement undoes itself: what it relies on has to hold, or it ends with SQLSTATE EH001 and has written nothing. The store knows
-- that code, and tries again or another way.
create function everhook.expect(holds boolean) returns boolean
language plpgsql volatile
as $$
begin
    if holds is not true then
        raise exception 'everhook.expect: what the statement relies on does not hold' using errcode = 'EH001';
    end if;
    return true;
end
$$;
