-- Weekly partitions, made and dropped with the rights of the schema's owner: the service needs none to change the schema.

-- Make the partitions of a week that are missing. A partition is made as a plain table and then attached: that locks out nobody who
-- reads or writes the others. Weeks are counted in the seconds that ids begin with.
create function everhook.make_week(week integer) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    seconds constant bigint := 7 * 24 * 3600;
    seconds_end constant bigint := 4294967296;
    low constant bigint := week * seconds;
    high constant bigint := low + seconds;
    parent text;
    part text;
begin
    if week is null or low < 0 or low >= seconds_end then
        raise exception 'everhook.make_week: there is no week %', week using errcode = 'invalid_parameter_value';
    end if;
    -- The lock of migrations: two nodes make the same one at once.
    perform pg_advisory_xact_lock(x'65766572686f6f6b'::bigint);
    foreach parent in array array['message', 'attempt', 'job', 'job_attempt'] loop
        part := parent || '_w' || lpad(week::text, 4, '0');
        if to_regclass('everhook.' || part) is null then
            execute format(
                'create table everhook.%I (like everhook.%I including defaults including constraints including indexes)',
                part, parent
            );
            execute format(
                'alter table everhook.%I attach partition everhook.%I for values from (%L) to (%s)',
                parent, part, '\x' || lpad(to_hex(low), 8, '0'),
                case when high < seconds_end then quote_literal('\x' || lpad(to_hex(high), 8, '0')) else 'maxvalue' end
            );
        end if;
    end loop;
end
$$;

-- Drop one partition. The caller has locked the table and seen that nothing of that week is open.
create function everhook.drop_week(parent text, week integer) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if parent is null or parent not in ('message', 'attempt', 'job', 'job_attempt') or week is null or week < 0 then
        raise exception 'everhook.drop_week: there is no week % of "%"', week, parent using errcode = 'invalid_parameter_value';
    end if;
    execute format('drop table if exists everhook.%I', parent || '_w' || lpad(week::text, 4, '0'));
end
$$;

-- Whoever may call `everhook.send` has no business with them.
revoke execute on function everhook.make_week(integer), everhook.drop_week(text, integer) from public;
