-- List old counts of traffic in spans between two lengths. Index: traffic_start.
-- No twin: a reader selects them while the writer does other work.
select environment, span, start, source, 0
from traffic
where span between ?2 and ?3
    and start < ?1
order by span, start;
