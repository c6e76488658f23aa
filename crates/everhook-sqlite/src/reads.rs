//! The reads of the seam. Each calls one function on a read-only connection.

use everhook_core::limits::{FAILURE_ENDPOINTS_MAX, FAILURES_COUNTED_MAX, FAILURES_LISTED_MAX, SESSIONS_LISTED_MAX};
use everhook_core::resource::{ResourceKind, environment_policy_id};
use everhook_core::time::Timestamp;
use everhook_store::answers;
use everhook_store::history::destinations;
use everhook_store::query::{Answer, Query};
use everhook_store::resource::ResourcePlace;
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{
    CountEndpointOpen, FindAttempt, FindBreaker, FindKey, FindOnce, ListDestination, ListEnvironment,
    ListEnvironmentPolicy, ListJobAttempt, ListKey, ListOnce, ListPausedGroup, ListScheduleRun, ListSession,
    ListTokenKey, ListWorker,
};

use crate::connection::Connection;
use crate::error::Fault;
use crate::history::{self, attempt};
use crate::job::query as job;
use crate::sql::run;
use crate::{
    background, backlog, batch, deliveries, directory, egress, endpoints, failure, queue, quota, resource, retention,
    token, traffic, worker,
};

/// Answers a query. The caller applies the deadline and the share.
#[expect(clippy::too_many_lines, reason = "one line for each query")]
pub(crate) fn answer(conn: &Connection, now: Timestamp, query: Query) -> Result<Answer, Fault> {
    Ok(answers!(query;
        Environments(_) => run(conn, ListEnvironment {})?,
        FindEnvironmentPolicy(q) => resource::find(conn, q.scope.environment, &ResourcePlace::environment_policy())?,
        FindChatApps(q) => resource::find(conn, q.scope.environment, &ResourcePlace::chat_apps())?,
        FindPortalSettings(q) => resource::find(conn, q.scope.environment, &ResourcePlace::portal_settings())?,
        EnvironmentPolicies(_) => run(conn, ListEnvironmentPolicy { id: environment_policy_id() })?,
        PausedGroups(_) => run(conn, ListPausedGroup {})?,
        FindQuota(q) => resource::find(conn, q.scope.environment, &ResourcePlace::quota(q.application))?,
        Quotas(q) => quota::list(conn, q.since)?,
        CountEndpoints(q) => {
            let count = CountEndpointOpen::new(q.scope.environment, q.application, q.limit);
            run(conn, count)?.unwrap_or_default()
        },
        CountMessages(q) => quota::count_messages(conn, &q)?,
        FindAlert(q) => {
            resource::find(conn, q.scope.environment, &ResourcePlace::named(ResourceKind::Alert, &q.name))?
        },
        Alerts(q) => resource::list_named(conn, q.scope.environment, &q.slice)?,
        AllAlerts(_) => resource::list_alerts(conn)?,
        Keys(_) => run(conn, ListKey {})?,
        FindKey(q) => run(conn, FindKey { hash: &q.hash })?,
        FindBreaker(q) => run(conn, FindBreaker { environment: q.scope.environment, endpoint: q.endpoint })?,
        FindEgressPause(_) => egress::find(conn)?,
        Audit(q) => run(conn, q.filter.list(q.scope.environment, &q.slice))?,
        TokenKeys(_) => run(conn, ListTokenKey {})?,
        FindTokenEnd(q) => token::find_end(conn, q.scope, &q.mark)?,
        FindApplication(q) => resource::find(conn, q.scope.environment, &ResourcePlace::application(&q.locator))?,
        ResolveApplication(q) => resource::resolve_application(conn, q.scope.environment, &q.uid)?,
        Applications(q) => resource::list_applications(conn, q.scope.environment, q.having, &q.slice)?,
        FindEndpoint(q) => {
            resource::find(conn, q.scope.environment, &ResourcePlace::endpoint(q.scope.application, &q.locator))?
        },
        Endpoints(q) => resource::list_children(conn, q.scope, &q.slice.ids())?,
        FindEndpoints(q) => directory::find_endpoints(conn, q.scope.environment, &q.ids)?,
        AllEndpoints(q) => directory::list_endpoints(conn, q.scope.environment, &q.slice)?,
        FindIntegration(q) => {
            resource::find(conn, q.scope.environment, &ResourcePlace::integration(q.scope.application, q.id))?
        },
        Integrations(q) => resource::list_children(conn, q.scope, &q.slice.ids())?,
        HasSubscriber(q) => endpoints::has_subscriber(conn, q.scope, &q.event_type, &q.channels)?,
        FindEventType(q) => {
            resource::find(conn, q.scope.environment, &ResourcePlace::named(ResourceKind::EventType, &q.name))?
        },
        EventTypes(q) => resource::list_event_types(conn, q.scope.environment, q.archived, &q.slice)?,
        UnknownEventTypes(q) => resource::unknown_event_types(conn, q.scope.environment, q.names)?,
        FindMessage(q) => history::find(conn, q.scope, &q.locator)?,
        FindMessageApplication(q) => directory::find_message(conn, q.scope.environment, q.message)?,
        AllMessages(q) => directory::list_messages(conn, q.scope.environment, &q.filter)?,
        Messages(q) => history::list(conn, &q)?,
        FindAttempt(q) => run(conn, FindAttempt { environment: q.scope.environment, message: q.message, id: q.id })?,
        Attempts(q) => attempt::list(conn, &q)?,
        Destinations(q) => destinations(run(conn, ListDestination { scope: q.scope, message: q.message })?),
        Deliveries(q) => deliveries::list(conn, q.scope.environment, &q.filter)?,
        ListFailures(q) => {
            let bounds = (FAILURE_ENDPOINTS_MAX, FAILURES_LISTED_MAX);
            failure::list(conn, q.scope.environment, q.after, bounds)?
        },
        FindFailures(q) => failure::find(conn, q.scope.environment, q.endpoint, FAILURES_COUNTED_MAX)?,
        CountEndpoint(q) => {
            let range = q.period.range();
            run(conn, q.period.count(q.scope.environment, q.endpoint, &range))?.unwrap_or_default()
        },
        FindOnce(q) => run(conn, FindOnce { scope: q.scope, key: &q.key })?,
        OnceSlots(q) => run(conn, ListOnce::new(q.scope, &q.slice))?,
        FindJob(q) => job::find(conn, q.scope.environment, q.id)?,
        Jobs(q) => job::list(conn, q.scope.environment, &q.filter)?,
        BackgroundTasks(q) => background::list(conn, q.scope.environment, &q.filter)?,
        CountAttempts(q) => background::count_attempts(conn, &q)?,
        JobAttempts(q) => run(conn, ListJobAttempt { environment: q.scope.environment, job: q.id, limit: q.limit })?,
        HeldJobs(q) => job::list_held(conn, q.session)?,
        FindQueue(q) => queue::find(conn, q.scope.environment, &q.name)?,
        Queues(q) => queue::list(conn, q.scope.environment, &q.slice)?,
        PushQueues(_) => queue::list_targets(conn)?,
        CountQueue(q) => queue::read_stats(conn, q.scope.environment, &q.name, now)?,
        FindBatch(q) => batch::find(conn, q.scope.environment, q.id)?,
        Batches(q) => batch::list(conn, q.scope.environment, &q.slice)?,
        FindSchedule(q) => resource::find_schedule(conn, q.scope.environment, &q.name)?,
        Schedules(q) => resource::list_named(conn, q.scope.environment, &q.slice)?,
        Runs(q) => run(conn, ListScheduleRun { environment: q.scope.environment, schedule: q.id, limit: q.limit })?,
        Sessions(q) => {
            let (closed_within, limit, now) = (q.closed_within, SESSIONS_LISTED_MAX, StoreClock::At(now));
            run(conn, ListSession { closed_within, limit, now })?
        },
        FindWorker(q) => worker::find(conn, q.scope.environment, q.id)?,
        Workers(q) => run(conn, ListWorker { environment: q.scope.environment, limit: SESSIONS_LISTED_MAX })?,
        CountBacklog(_) => backlog::count(conn, now)?,
        FindSizeCut(q) => retention::find_size_cut(conn, q.bytes_max)?,
        CountOpen(q) => backlog::count_open(conn, q.scope.environment, now)?,
        CountLane(q) => backlog::count_lane(conn, q.scope.environment, q.endpoint, now)?,
        Traffic(q) => traffic::list(conn, q.scope.environment, q.span, q.since)?,
    ))
}
