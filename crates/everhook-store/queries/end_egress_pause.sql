-- End the pause of egress. The table has at most one row.
delete from everhook.egress_pause;
