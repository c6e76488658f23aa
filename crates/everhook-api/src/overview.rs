//! The overview of an environment: its traffic over a range of time, its open tasks, nodes and queues.
//!
//! The cost does not depend on the number of messages: traffic comes from counters that the nodes write every few
//! seconds, and open tasks are counted up to a bound.

use std::time::Duration;

use axum::Json;
use everhook_core::id::{ApplicationId, EndpointId, SessionId};
use everhook_core::limits::OVERVIEW_TASKS_MAX;
use everhook_core::name::Name;
use everhook_core::queue::QueueState;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_core::traffic::latency::Latencies;
use everhook_core::traffic::overview::{Overview, RATE_WINDOW, Range, delivered_per_minute};
use everhook_core::traffic::{Span, Traffic, TrafficRow};
use everhook_store::backlog::OpenCounts;
use everhook_store::catalog::{Order, Slice};
use everhook_store::directory::PlacedEndpoint;
use everhook_store::query;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Caller, Rights};
use crate::directory;
use crate::error::ApiError;
use crate::limits::{OVERVIEW_ENDPOINTS_MAX, OVERVIEW_QUEUES_MAX};
use crate::query::Query;
use crate::routes::{Answer, Routes};
use crate::scope::InEnvironment;
use crate::state::Api;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct OverviewParams {
    /// The range up to now: `15m`, `1h`, `6h`, `24h` or `7d`. Default: `1h`.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>, pattern = "^(15m|1h|6h|24h|7d)$")]
    range: Option<Range>,
}

/// The state of an environment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OverviewOut {
    /// The time of this overview.
    #[schema(value_type = String, format = DateTime)]
    now: Timestamp,
    /// The range of the series and totals.
    range: &'static str,
    /// The length of a step of the series.
    step_seconds: u64,
    /// Counts per step.
    series: SeriesOut,
    /// Open tasks now, and sums of the range.
    totals: TotalsOut,
    /// Failed attempts in the range, by class, most first.
    failures: Vec<FailureOut>,
    /// The endpoints with the most failed attempts in the range, most first. Deleted endpoints are left out.
    top_endpoints: Vec<FailingEndpointOut>,
    /// The nodes that share this store. Empty unless the key is an admin key.
    nodes: Vec<OverviewNodeOut>,
    /// The first 20 queues by name.
    queues: Vec<OverviewQueueOut>,
}

/// Counts per step. All lists have one item per step, oldest first.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct SeriesOut {
    /// The start of each step, in seconds since 1970.
    t: Vec<i64>,
    /// Accepted messages, except those that the server itself creates.
    accepted: Vec<u64>,
    /// Deliveries that succeeded.
    delivered: Vec<u64>,
    /// Attempts that failed.
    failed: Vec<u64>,
    /// Deliveries that died.
    dead: Vec<u64>,
    /// The median time from acceptance to delivery, in milliseconds; null without deliveries. Precise to 7 %.
    p50: Vec<Option<f64>>,
    /// The time within which 95 % of the deliveries succeeded.
    p95: Vec<Option<f64>>,
    /// The time within which 99 % of the deliveries succeeded.
    p99: Vec<Option<f64>>,
}

/// Open tasks now, and rates. Tasks are deliveries and jobs. A count of `countedMax` means at least this number.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TotalsOut {
    /// Waiting tasks, due or not.
    pending: u64,
    /// Waiting tasks that are due and not held back by their endpoint.
    due: u64,
    /// Waiting tasks that failed before.
    retrying: u64,
    /// Tasks that a node or worker holds.
    leased: u64,
    /// Tasks that ran out of attempts.
    dead: u64,
    /// The jobs among them.
    dead_jobs: u64,
    /// The bound of the counts above.
    counted_max: usize,
    /// Messages that were accepted in the range.
    accepted: u64,
    /// Deliveries that succeeded in the range.
    delivered: u64,
    /// Attempts that failed in the range.
    failed: u64,
    /// The average of the last five minutes.
    delivered_per_minute: f64,
    /// The share of attempts in the range that succeeded, from 0 to 1; null without attempts.
    success_rate: Option<f64>,
    /// The time for which the oldest due task has waited; null if none is due.
    oldest_due_seconds: Option<f64>,
    /// Times from acceptance to delivery over the whole range, in milliseconds.
    p50: Option<f64>,
    /// The time within which 95 % of the deliveries succeeded.
    p95: Option<f64>,
    /// The time within which 99 % of the deliveries succeeded.
    p99: Option<f64>,
}

/// Failed attempts of one class.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FailureOut {
    /// `4xx`, `5xx` or `429`; `status` for other statuses; or the class of the attempt, such as `timeout`.
    #[schema(value_type = String)]
    class: &'static str,
    count: u64,
}

/// An endpoint with failed attempts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailingEndpointOut {
    #[schema(value_type = String)]
    app_id: ApplicationId,
    /// The name of the application.
    app_name: String,
    #[schema(value_type = String)]
    endpoint_id: EndpointId,
    url: String,
    /// A lower bound, if very many endpoints fail.
    failures: u64,
    /// The class of the last failure.
    #[schema(value_type = String)]
    class: &'static str,
    /// The time of the last failure.
    #[schema(value_type = String, format = DateTime)]
    last_failure_at: Timestamp,
}

/// A node, or a worker, with an open session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OverviewNodeOut {
    /// The session's id.
    #[schema(value_type = String)]
    id: SessionId,
    /// The host and the process.
    name: String,
    /// `all`, `api` or `worker`.
    #[schema(value_type = String)]
    role: &'static str,
    version: String,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// The latest renewal of the session.
    #[schema(value_type = String, format = DateTime)]
    last_seen_at: Timestamp,
    /// Tasks that it holds, of all environments.
    leases: u32,
}

/// A queue with its jobs. Counting stops at 100000.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OverviewQueueOut {
    #[schema(value_type = String)]
    name: Name,
    pending: u64,
    leased: u64,
    dead: u64,
    /// The maximum number of running jobs.
    limit: Option<u32>,
    /// Whether the queue is paused, or stopped by its target.
    paused: bool,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(get, __path_get)
}

/// Get the traffic of the environment over a range of time, its open tasks, nodes and queues.
///
/// Counts of this node are current. Those of other nodes are at most a few seconds old, and a node that crashes loses
/// those of its last five seconds.
#[utoipa::path(
    get, path = "/api/v1/overview", operation_id = "v1.overview.get", tag = "Overview", params(OverviewParams),
    responses((status = 200, body = OverviewOut))
)]
async fn get(
    InEnvironment { api, scope }: InEnvironment,
    caller: Caller,
    Query(OverviewParams { range }): Query<OverviewParams>,
) -> Answer<OverviewOut> {
    let (range, now) = (range.unwrap_or(Range::Hour), api.now());
    let rows = traffic(&api, scope, range.span(), range.since(now)).await?;
    let per_minute = match range.span() {
        Span::Minute => delivered_per_minute(now, &rows),
        _ => delivered_per_minute(now, &traffic(&api, scope, Span::Minute, now.minus(RATE_WINDOW)).await?),
    };
    let overview = Overview::fold(range, now, &rows);
    let open = api.read(query::CountOpen { scope }).await?;
    let nodes = match caller.rights {
        Rights::Admin => nodes(&api).await?,
        Rights::Environment(_) | Rights::Application { .. } => Vec::new(),
    };
    Ok(Json(OverviewOut {
        now,
        range: range.as_str(),
        step_seconds: range.step().as_secs(),
        series: SeriesOut::of(&overview),
        totals: TotalsOut::new(&open, &overview, per_minute),
        failures: failures(&overview.total),
        top_endpoints: top_endpoints(&api, scope, &overview.total).await?,
        nodes,
        queues: queues(&api, scope).await?,
    }))
}

/// Reads stored traffic, and adds the counts of this node that are not yet written.
async fn traffic(api: &Api, scope: Scope, span: Span, since: Timestamp) -> Result<Vec<TrafficRow>, ApiError> {
    let mut rows = api.read(query::Traffic { scope, span, since }).await?;
    let start = span.start(api.now());
    rows.push(TrafficRow {
        environment: scope.environment,
        span,
        start,
        source: api.new_id(),
        counts: api.node.fresh_traffic(scope.environment),
    });
    Ok(rows)
}

fn failures(total: &Traffic) -> Vec<FailureOut> {
    total.failures().into_iter().map(|(class, count)| FailureOut { class: class.as_str(), count }).collect()
}

async fn top_endpoints(api: &Api, scope: Scope, total: &Traffic) -> Result<Vec<FailingEndpointOut>, ApiError> {
    let top = total.endpoints();
    let ids: Vec<EndpointId> = top.iter().map(|(id, _)| *id).collect();
    let known = directory::endpoints(api, scope, ids).await?;
    let show = |(id, found): &(EndpointId, _)| {
        let PlacedEndpoint { application, endpoint } = known.get(id)?;
        let everhook_core::traffic::EndpointFailures { failures, class, last_at } = *found;
        Some(FailingEndpointOut {
            app_id: application.id,
            app_name: application.name.clone(),
            endpoint_id: *id,
            url: endpoint.shown_url(),
            failures,
            class: class.as_str(),
            last_failure_at: last_at,
        })
    };
    Ok(top.iter().filter_map(show).take(OVERVIEW_ENDPOINTS_MAX).collect())
}

async fn nodes(api: &Api) -> Result<Vec<OverviewNodeOut>, ApiError> {
    let sessions = api.read(query::Sessions { closed_within: Duration::ZERO }).await?;
    let open = sessions.into_iter().filter(|session| session.closed_at.is_none());
    let show = |session: everhook_store::lease::SessionRecord| OverviewNodeOut {
        id: session.id,
        name: session.node,
        role: session.role.as_str(),
        version: session.version,
        started_at: session.started_at,
        last_seen_at: session.renewed_at,
        leases: session.held,
    };
    Ok(open.map(show).collect())
}

async fn queues(api: &Api, scope: Scope) -> Result<Vec<OverviewQueueOut>, ApiError> {
    if !api.config.jobs {
        return Ok(Vec::new());
    }
    let slice = Slice { after: None, order: Order::Ascending, limit: OVERVIEW_QUEUES_MAX };
    let mut queues = Vec::new();
    for queue in api.read(query::Queues { scope, slice }).await? {
        let stats = api.read(query::CountQueue { scope, name: queue.name.clone() }).await?;
        queues.push(OverviewQueueOut {
            name: queue.name,
            pending: stats.pending,
            leased: stats.running,
            dead: stats.dead,
            limit: queue.limit,
            paused: queue.state != QueueState::Open,
        });
    }
    Ok(queues)
}

impl SeriesOut {
    fn of(overview: &Overview) -> SeriesOut {
        let mut series = SeriesOut::default();
        for (start, step) in &overview.steps {
            series.t.push(start.as_secs());
            series.accepted.push(step.accepted);
            series.delivered.push(step.delivered);
            series.failed.push(step.failed());
            series.dead.push(step.dead);
            let [p50, p95, p99] = percentiles(&step.latencies);
            series.p50.push(p50);
            series.p95.push(p95);
            series.p99.push(p99);
        }
        series
    }
}

impl TotalsOut {
    fn new(open: &OpenCounts, overview: &Overview, delivered_per_minute: f64) -> TotalsOut {
        let [p50, p95, p99] = percentiles(&overview.total.latencies);
        TotalsOut {
            pending: open.pending,
            due: open.due,
            retrying: open.retrying,
            leased: open.leased,
            dead: open.dead,
            dead_jobs: open.dead_jobs,
            counted_max: OVERVIEW_TASKS_MAX,
            accepted: overview.total.accepted,
            delivered: overview.total.delivered,
            failed: overview.total.failed(),
            delivered_per_minute,
            success_rate: overview.success_rate(),
            oldest_due_seconds: open.oldest_due.map(|age| age.as_secs_f64()),
            p50,
            p95,
            p99,
        }
    }
}

/// The median, 95th and 99th percentile in milliseconds.
fn percentiles(latencies: &Latencies) -> [Option<f64>; 3] {
    [0.5, 0.95, 0.99].map(|share| latencies.percentile(share).map(|took| took.as_secs_f64() * 1000.0))
}
