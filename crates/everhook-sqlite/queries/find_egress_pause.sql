-- Find the pause of egress. The table has at most one row.
select {EgressPause}
from egress_pause;
