//! The reads of the seam. Each gets its share and its deadline here.

use everhook_core::limits::{FAILURE_ENDPOINTS_MAX, FAILURES_COUNTED_MAX, FAILURES_LISTED_MAX, SESSIONS_LISTED_MAX};
use everhook_core::resource::{ResourceKind, environment_policy_id};
use everhook_store::answers;
use everhook_store::error::StoreError;
use everhook_store::history::destinations;
use everhook_store::query::{Answer, Query};
use everhook_store::resource::ResourcePlace;
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{
    CountEndpointOpen, FindAttempt, FindBreaker, FindEgressPause, FindKey, FindOnce, ListDestination, ListEnvironment,
    ListEnvironmentPolicy, ListJobAttempt, ListKey, ListOnce, ListPausedGroup, ListScheduleRun, ListSession,
    ListTokenKey, ListWorker,
};
use everhook_store::store::Op;

use crate::error::Fault;
use crate::store::PostgresStore;
use crate::tenant;

impl PostgresStore {
    /// Runs a read. A search waits for the turn of its environment first.
    pub(crate) async fn run_read(&self, query: &Query) -> Result<Answer, StoreError> {
        let (op, share) = (Op::Read(query.name()), query.share());
        let Some(environment) = share else {
            return self.run_plain(op, || Box::pin(tenant::scoped(query, self.answer_once(query)))).await;
        };
        let _share = self.shares.wait(environment, op).await?;
        self.run_plain(op, || Box::pin(tenant::scoped(query, self.answer_once(query)))).await.map_err(|error| {
            match error {
                StoreError::Unavailable { op, source } if source.downcast_ref().is_some_and(Fault::is_slow) => {
                    StoreError::Slow { op, source }
                }
                other => other,
            }
        })
    }

    #[expect(clippy::too_many_lines, reason = "one line for each query")]
    async fn answer_once(&self, query: &Query) -> Result<Answer, Fault> {
        let database = &self.database;
        Ok(answers!(query;
            Environments(_) => database.read(ListEnvironment {}).await?,
            FindEnvironmentPolicy(q) => {
                self.find_resource_once(q.scope.environment, ResourcePlace::environment_policy()).await?
            },
            FindChatApps(q) => self.find_resource_once(q.scope.environment, ResourcePlace::chat_apps()).await?,
            FindPortalSettings(q) => {
                self.find_resource_once(q.scope.environment, ResourcePlace::portal_settings()).await?
            },
            EnvironmentPolicies(_) => database.read(ListEnvironmentPolicy { id: environment_policy_id() }).await?,
            PausedGroups(_) => database.read(ListPausedGroup {}).await?,
            FindQuota(q) => {
                self.find_resource_once(q.scope.environment, ResourcePlace::quota(q.application)).await?
            },
            Quotas(q) => self.list_quotas_once(q.since).await?,
            CountEndpoints(q) => {
                let count = CountEndpointOpen::new(q.scope.environment, q.application, q.limit);
                database.read(count).await?.unwrap_or_default()
            },
            CountMessages(q) => self.count_messages_once(q).await?,
            FindAlert(q) => {
                let place = ResourcePlace::named(ResourceKind::Alert, &q.name);
                self.find_resource_once(q.scope.environment, place).await?
            },
            Alerts(q) => self.list_named_once(q.scope.environment, &q.slice).await?,
            AllAlerts(_) => self.list_alerts_once().await?,
            Keys(_) => database.read(ListKey {}).await?,
            FindKey(q) => database.read(FindKey { hash: &q.hash }).await?,
            FindBreaker(q) => {
                database.read(FindBreaker { environment: q.scope.environment, endpoint: q.endpoint }).await?
            },
            FindEgressPause(_) => database.read(FindEgressPause {}).await?,
            Audit(q) => database.read(q.filter.list(q.scope.environment, &q.slice)).await?,
            TokenKeys(_) => database.read(ListTokenKey {}).await?,
            FindTokenEnd(q) => self.find_token_end_once(q.scope, &q.mark).await?,
            FindApplication(q) => {
                self.find_resource_once(q.scope.environment, ResourcePlace::application(&q.locator)).await?
            },
            ResolveApplication(q) => self.resolve_application_once(q.scope.environment, &q.uid).await?,
            Applications(q) => self.list_applications_once(q.scope.environment, q.having, &q.slice).await?,
            FindEndpoint(q) => {
                let place = ResourcePlace::endpoint(q.scope.application, &q.locator);
                self.find_resource_once(q.scope.environment, place).await?
            },
            Endpoints(q) => self.list_children_once(q.scope, q.slice.ids()).await?,
            FindEndpoints(q) => self.find_endpoints_once(q.scope.environment, &q.ids).await?,
            AllEndpoints(q) => self.list_endpoints_once(q.scope.environment, &q.slice).await?,
            FindIntegration(q) => {
                let place = ResourcePlace::integration(q.scope.application, q.id);
                self.find_resource_once(q.scope.environment, place).await?
            },
            Integrations(q) => self.list_children_once(q.scope, q.slice.ids()).await?,
            HasSubscriber(q) => self.has_subscriber_once(q.scope, &q.event_type, &q.channels).await?,
            FindEventType(q) => {
                let place = ResourcePlace::named(ResourceKind::EventType, &q.name);
                self.find_resource_once(q.scope.environment, place).await?
            },
            EventTypes(q) => self.list_event_types_once(q.scope.environment, q.archived, &q.slice).await?,
            UnknownEventTypes(q) => self.unknown_event_types_once(q.scope.environment, &q.names).await?,
            FindMessage(q) => self.find_message_once(q).await?,
            FindMessageApplication(q) => {
                self.find_message_application_once(q.scope.environment, q.message).await?
            },
            AllMessages(q) => self.list_all_messages_once(q.scope.environment, &q.filter).await?,
            Messages(q) => self.list_messages_once(q).await?,
            FindAttempt(q) => {
                database.read(FindAttempt { environment: q.scope.environment, message: q.message, id: q.id }).await?
            },
            Attempts(q) => self.list_attempts_once(q).await?,
            Destinations(q) => {
                destinations(database.read(ListDestination { scope: q.scope, message: q.message }).await?)
            },
            Deliveries(q) => self.list_deliveries_once(q.scope.environment, &q.filter).await?,
            ListFailures(q) => {
                let bounds = (FAILURE_ENDPOINTS_MAX, FAILURES_LISTED_MAX);
                self.list_failures_once(q.scope.environment, q.after, bounds).await?
            },
            FindFailures(q) => {
                self.find_failures_once(q.scope.environment, q.endpoint, FAILURES_COUNTED_MAX).await?
            },
            CountEndpoint(q) => {
                let range = q.period.range();
                database.read(q.period.count(q.scope.environment, q.endpoint, &range)).await?.unwrap_or_default()
            },
            FindOnce(q) => database.read(FindOnce { scope: q.scope, key: &q.key }).await?,
            OnceSlots(q) => database.read(ListOnce::new(q.scope, &q.slice)).await?,
            FindJob(q) => self.find_job_once(q.scope.environment, q.id).await?,
            Jobs(q) => self.list_jobs_once(q.scope.environment, &q.filter).await?,
            BackgroundTasks(q) => self.list_background_once(q.scope.environment, &q.filter).await?,
            CountAttempts(q) => self.count_attempts_once(q).await?,
            JobAttempts(q) => {
                database.read(ListJobAttempt { environment: q.scope.environment, job: q.id, limit: q.limit }).await?
            },
            HeldJobs(q) => self.list_held_once(q.session).await?,
            FindQueue(q) => self.find_queue_once(q.scope.environment, &q.name).await?,
            Queues(q) => self.list_queues_once(q.scope.environment, &q.slice).await?,
            PushQueues(_) => self.list_targets_once().await?,
            CountQueue(q) => self.queue_stats_once(q.scope.environment, &q.name).await?,
            FindBatch(q) => self.find_batch_once(q.scope.environment, q.id).await?,
            Batches(q) => self.list_batches_once(q.scope.environment, &q.slice).await?,
            FindSchedule(q) => {
                let place = ResourcePlace::named(ResourceKind::Schedule, &q.name);
                self.find_resource_once(q.scope.environment, place).await?
            },
            Schedules(q) => self.list_named_once(q.scope.environment, &q.slice).await?,
            Runs(q) => {
                database.read(ListScheduleRun { environment: q.scope.environment, schedule: q.id, limit: q.limit }).await?
            },
            Sessions(q) => {
                let (closed_within, limit, now) = (q.closed_within, SESSIONS_LISTED_MAX, StoreClock::Database);
                database.read(ListSession { closed_within, limit, now }).await?
            },
            FindWorker(q) => self.find_worker_once(q.scope.environment, q.id).await?,
            Workers(q) => {
                database.read(ListWorker { environment: q.scope.environment, limit: SESSIONS_LISTED_MAX }).await?
            },
            CountBacklog(_) => self.backlog_once().await?,
            FindSizeCut(q) => self.find_size_cut_once(q.bytes_max).await?,
            CountOpen(q) => self.count_open_once(q.scope.environment).await?,
            CountLane(q) => self.count_lane_once(q.scope.environment, q.endpoint).await?,
            Traffic(q) => self.list_traffic_once(q.scope.environment, q.span, q.since).await?,
        ))
    }
}
