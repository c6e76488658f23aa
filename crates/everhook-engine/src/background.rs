//! Runs background tasks: bulk work of an environment, as jobs of the server itself.
//!
//! Bulk work advances in small transactions, each of which stores its position (`store::background`). After a crash,
//! the next holder of the job continues there. Statistics only read, so they start again. A handler gives its slot back
//! after a while, so that the background tasks of all environments take turns. It also returns when its node stops, and
//! the next holder continues.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::application::Application;
use everhook_core::background::{
    ApplicationUsage, BACKGROUND_QUEUE, BackgroundKind, BackgroundTask, Bulk, BulkAction, Effect, Position,
};
use everhook_core::delivery::DeliveryCommand;
use everhook_core::id::{ApplicationId, BackgroundTaskId, EnvironmentId, JobId, MessageId, SERVER_ENVIRONMENT};
use everhook_core::job::report::Report;
use everhook_core::job::{Job, RunAt};
use everhook_core::limits::{OWN_RESULT_BYTES_MAX, PAGE_MAX};
use everhook_core::operational::{BackgroundNews, News, OPERATIONAL_APPLICATION};
use everhook_core::scope::{AppScope, Scope};
use everhook_store::background::{Advance, BulkWork, owner_key};
use everhook_store::catalog::{Having, Locator, Order, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::job::NewJob;
use everhook_store::lease::{Append, NewMessage};
use everhook_store::store::{Reads, Store};
use everhook_store::{operational, query};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::info;

use crate::clock::Clock;
use crate::retention::name;
use crate::run::handler::{Context, Finish, Handler};

/// Background tasks that run at the same time on one node.
pub(crate) const SLOTS: usize = 4;
/// Rows that one transaction reads.
const SLICE: usize = 100;
/// Rows that one transaction of work with a low rate reads. Fewer would make a search for few messages slow.
const SLICE_MIN: u32 = 10;
/// Rows that one transaction of a command for deliveries reads. Most rows cost less than a new delivery.
const STEER_SLICE: usize = 250;
/// Messages that one transaction counts, and messages whose attempts one read counts.
const COUNT_SLICE: usize = 1000;
/// The pause after a transaction, as a multiple of its duration. It leaves time for other writes.
const PAUSE_SHARE: u32 = 4;
/// The shortest pause after a transaction.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The time after which bulk work gives its slot to the next background task.
const TURN: Duration = Duration::from_secs(30);
/// The time limit of one attempt. Statistics of a large environment take a while.
const TIMEOUT: Duration = Duration::from_secs(6 * 3600);

/// The payload of the job.
#[derive(Serialize, Deserialize)]
struct Arguments {
    environment: i32,
    task: BackgroundTask,
}

/// Creates the job of a background task. `key` is the idempotency key of the request.
pub fn new_job(id: JobId, environment: EnvironmentId, task: &BackgroundTask, key: Option<&DedupKey>) -> NewJob {
    let payload = Arguments { environment: environment.0, task: task.clone() };
    let payload = serde_json::to_vec(&payload).expect("ids, names and times are always JSON");
    let tag = task.application().map(|application| name(&application.to_string()));
    let job = Job {
        timeout: TIMEOUT,
        concurrency_key: Some(owner_key(environment)),
        tags: tag.into_iter().collect(),
        ..Job::new(id, name(BACKGROUND_QUEUE), name(task.kind().as_str()), payload.into())
    };
    let key = key.map(|key| key.of_environment(environment));
    NewJob { environment: SERVER_ENVIRONMENT, job, run_at: RunAt::Now, key }
}

pub(crate) struct BackgroundWorker {
    store: Arc<dyn Store>,
    clock: Arc<Clock>,
}

#[async_trait]
impl Handler for BackgroundWorker {
    async fn run(&self, context: Context) -> Finish {
        let payload = context.job().payload.as_deref().and_then(|json| serde_json::from_slice::<Arguments>(json).ok());
        let Some(Arguments { environment, task }) = payload else {
            return Finish::other(
                Report::Cancelled,
                "the arguments of the background task are unknown to this version",
            );
        };
        let (environment, kind) = (EnvironmentId(environment), task.kind());
        let finish = match task {
            BackgroundTask::Replay(replay) => {
                self.bulk(&context, environment, Bulk::all(BulkAction::Replay(replay))).await
            }
            BackgroundTask::Purge(purge) => self.bulk(&context, environment, Bulk::all(BulkAction::Purge(purge))).await,
            BackgroundTask::Bulk(bulk) => self.bulk(&context, environment, bulk).await,
            BackgroundTask::ApplicationUsage(usage) => self.application_usage(&context, environment, &usage).await,
            BackgroundTask::EventTypeUsage => self.event_type_usage(&context, environment).await,
        };
        let told = match finish {
            Ok(finish) if finish.report == Report::Completed => {
                self.tell_finished(&context, environment, kind, &finish).await.map(|()| finish)
            }
            finish => finish,
        };
        told.unwrap_or_else(|error| Finish::other(Report::Failed { retry_after: None }, error.to_string()))
    }
}

impl BackgroundWorker {
    pub(crate) fn new(store: &Arc<dyn Store>, clock: &Arc<Clock>) -> BackgroundWorker {
        BackgroundWorker { store: Arc::clone(store), clock: Arc::clone(clock) }
    }

    async fn bulk(&self, context: &Context, environment: EnvironmentId, bulk: Bulk) -> Result<Finish, StoreError> {
        let (kind, job) = (bulk.kind(), context.job().id);
        let found = self.store.read(query::FindJob { scope: Scope::of(SERVER_ENVIRONMENT), id: job }).await?;
        let from = Position::of(found.and_then(|record| record.progress).as_ref());
        let Bulk { action, effect, rate } = bulk;
        let work = match action {
            BulkAction::Replay(replay) => BulkWork::Replay(replay),
            BulkAction::Purge(purge) => BulkWork::Purge(purge),
            BulkAction::Cancel(selection) => BulkWork::Steer(selection, DeliveryCommand::Cancel),
            BulkAction::Redrive(selection) => BulkWork::Steer(selection, DeliveryCommand::RetryNow),
        };
        let pace = Pace::of(kind, &work, effect, rate);
        self.advance(context, environment, work, from, pace).await
    }

    /// Works through bulk work, one small transaction at a time.
    async fn advance(
        &self,
        context: &Context,
        environment: EnvironmentId,
        work: BulkWork,
        mut from: Position,
        pace: Pace,
    ) -> Result<Finish, StoreError> {
        let (job, by, began) = (context.job().id, context.lease(), self.clock.elapsed());
        loop {
            if let Some(finish) = ended_early(context) {
                return Ok(finish);
            }
            let slice_began = self.clock.elapsed();
            let advance = Advance { job, by, work: work.clone(), effect: pace.effect, from, limit: pace.limit() };
            let advanced = match self.store.advance(Scope::of(environment), advance).await? {
                Ok(Some(advanced)) => advanced,
                Ok(None) => return Ok(Finish::other(Report::Cancelled, "the endpoint does not exist any more")),
                Err(lost) => return Ok(Finish::other(Report::Interrupted, lost.to_string())),
            };
            from = advanced.position;
            context.note_advance();
            if advanced.changed > 0 && pace.effect == Effect::Apply && !matches!(work, BulkWork::Purge(_)) {
                context.wake_deliveries();
            }
            if advanced.is_last {
                return Ok(pace.finished(job, from));
            }
            let now = self.clock.elapsed();
            let wait = pace.pause(now.saturating_sub(slice_began), advanced.changed);
            if now.saturating_sub(began) > TURN {
                return Ok(Finish::other(Report::Snoozed { wait }, ""));
            }
            context.pause(wait).await;
        }
    }

    /// Tells the operator of the environment that a background task has finished. A crash before the end of the job
    /// repeats this; the key makes it one event.
    async fn tell_finished(
        &self,
        context: &Context,
        environment: EnvironmentId,
        kind: BackgroundKind,
        finish: &Finish,
    ) -> Result<(), StoreError> {
        let task_id = BackgroundTaskId(context.job().id.0);
        let data = finish.result.as_deref().and_then(|json| serde_json::from_slice(json).ok()).unwrap_or(Value::Null);
        let news = News::Background(BackgroundNews { task_id, task: kind.as_str(), status: "finished", data });
        let message = operational::message(environment, &news, MessageId(context.new_id()));
        let key = DedupKey::event_id(OPERATIONAL_APPLICATION, &name(&task_id.to_string()));
        let new = NewMessage { keys: vec![key], ..message };
        // Without an operational endpoint there is no application to append to, and no recipient.
        self.store.append(Append { fast: None, messages: vec![new] }).await?;
        context.wake_deliveries();
        Ok(())
    }

    async fn application_usage(
        &self,
        context: &Context,
        environment: EnvironmentId,
        usage: &ApplicationUsage,
    ) -> Result<Finish, StoreError> {
        let (mut stats, mut pages) = (Vec::new(), Applications::new(usage.applications.clone()));
        while let Some(applications) = pages.next(&*self.store, environment).await? {
            for application in applications {
                let scope = AppScope::of(environment, application.id);
                let attempts = match self.count_attempts(context, scope, usage).await? {
                    Ok(attempts) => attempts,
                    Err(finish) => return Ok(finish),
                };
                let (id, uid) = (application.id, application.uid);
                stats.push(json!({ "appId": id, "appUid": uid, "messageDestinations": attempts }));
            }
        }
        Ok(completed(&json!({ "appStats": stats })))
    }

    /// Counts the attempts of an application, unless the background task has to end early.
    async fn count_attempts(
        &self,
        context: &Context,
        scope: AppScope,
        usage: &ApplicationUsage,
    ) -> Result<Result<u64, Finish>, StoreError> {
        let (mut attempts, mut after) = (0, None);
        loop {
            if let Some(finish) = ended_early(context) {
                return Ok(Err(finish));
            }
            let began = self.clock.elapsed();
            let (since, until) = (usage.since, usage.until);
            let count =
                self.store.read(query::CountAttempts { scope, after, since, until, limit: COUNT_SLICE }).await?;
            attempts += count.attempts;
            after = count.next;
            if after.is_none() {
                return Ok(Ok(attempts));
            }
            context.pause(pause(self.clock.elapsed().saturating_sub(began))).await;
        }
    }

    async fn event_type_usage(&self, context: &Context, environment: EnvironmentId) -> Result<Finish, StoreError> {
        let (mut usages, mut pages) = (Vec::new(), Applications::new(None));
        while let Some(applications) = pages.next(&*self.store, environment).await? {
            for application in applications {
                if let Some(finish) = ended_early(context) {
                    return Ok(finish);
                }
                usages.push(self.subscriptions(environment, &application).await?);
            }
        }
        Ok(completed(&json!({ "event_types": usages })))
    }

    async fn subscriptions(&self, environment: EnvironmentId, application: &Application) -> Result<Value, StoreError> {
        let scope = AppScope::of(environment, application.id);
        let (mut names, mut takes_all) = (BTreeSet::new(), false);
        let mut after = None;
        loop {
            let slice = Slice { after, order: Order::Ascending, limit: PAGE_MAX };
            let endpoints = self.store.read(query::Endpoints { scope, slice }).await?;
            after = endpoints.last().map(|endpoint| endpoint.id).filter(|_| endpoints.len() == PAGE_MAX);
            for endpoint in endpoints {
                takes_all |= endpoint.event_types.is_none();
                names.extend(endpoint.event_types.into_iter().flatten());
            }
            if after.is_none() {
                break;
            }
        }
        Ok(json!({
            "appId": application.id,
            "explicitlySubscribedEventTypes": names,
            "hasCatchAllEndpoint": takes_all,
        }))
    }
}

/// The effect and the speed of bulk work.
#[derive(Clone, Copy)]
struct Pace {
    kind: BackgroundKind,
    effect: Effect,
    rate: Option<u32>,
    /// The most rows of one transaction.
    slice: usize,
}

impl Pace {
    fn of(kind: BackgroundKind, work: &BulkWork, effect: Effect, rate: Option<u32>) -> Pace {
        let slice = match (work, effect) {
            // It may read payloads.
            (BulkWork::Replay(_), _) => SLICE,
            (_, Effect::Count) => COUNT_SLICE,
            (BulkWork::Purge(_), Effect::Apply) => SLICE,
            (BulkWork::Steer(..), Effect::Apply) => STEER_SLICE,
        };
        // A count changes nothing, so that no rate holds it back.
        Pace { kind, effect, rate: rate.filter(|_| effect == Effect::Apply), slice }
    }

    /// Rows of one transaction: about a second of a rate, so that messages are sent evenly.
    fn limit(self) -> usize {
        self.rate.map_or(self.slice, |rate| (rate.max(SLICE_MIN) as usize).min(self.slice))
    }

    /// The pause after a transaction that took `took` and changed `changed` messages.
    fn pause(self, took: Duration, changed: usize) -> Duration {
        let of_rate = match self.rate {
            Some(rate) => Duration::from_secs_f64(changed as f64 / f64::from(rate.max(1))).saturating_sub(took),
            None => Duration::ZERO,
        };
        pause(took).max(of_rate)
    }

    fn finished(self, job: JobId, position: Position) -> Finish {
        let (kind, count) = (self.kind, position.count);
        info!(job.id = %job, count, "{kind} is finished: {count} messages");
        completed(&json!({ kind.counts().unwrap_or("count"): count }))
    }
}

/// The applications to report on: named ones, or all of an environment, page by page.
enum Applications {
    Named(std::vec::IntoIter<ApplicationId>),
    After(Option<ApplicationId>),
    Ended,
}

impl Applications {
    fn new(named: Option<Vec<ApplicationId>>) -> Applications {
        named.map_or(Applications::After(None), |named| Applications::Named(named.into_iter()))
    }

    async fn next(
        &mut self,
        store: &dyn Store,
        environment: EnvironmentId,
    ) -> Result<Option<Vec<Application>>, StoreError> {
        let scope = Scope::of(environment);
        match self {
            Applications::Ended => Ok(None),
            Applications::Named(named) => {
                let Some(id) = named.next() else { return Ok(None) };
                let found = store.read(query::FindApplication { scope, locator: Locator::Id(id) }).await?;
                Ok(Some(found.into_iter().collect()))
            }
            Applications::After(after) => {
                let slice = Slice { after: *after, order: Order::Ascending, limit: PAGE_MAX };
                let page = store.read(query::Applications { scope, having: Having::Anything, slice }).await?;
                let last = page.last().map(|application| application.id).filter(|_| page.len() == PAGE_MAX);
                *self = last.map_or(Applications::Ended, |last| Applications::After(Some(last)));
                Ok(Some(page))
            }
        }
    }
}

fn completed(result: &Value) -> Finish {
    let result = Bytes::from(result.to_string());
    if result.len() > OWN_RESULT_BYTES_MAX {
        let bytes = result.len();
        let why = format!("the result has {bytes} bytes, more than {OWN_RESULT_BYTES_MAX}: name fewer applications");
        return Finish::other(Report::Cancelled, why);
    }
    Finish::completed(Some(result))
}

/// The end of a background task that was cancelled, or whose node stops. The next holder of bulk work continues at the
/// stored position, so a stop need not wait for it.
fn ended_early(context: &Context) -> Option<Finish> {
    if context.is_cancelled() {
        return Some(Finish::other(Report::Cancelled, "the background task was cancelled"));
    }
    let interrupted = || Finish::other(Report::Interrupted, "the server stopped before the background task ended");
    context.is_stopping().then(interrupted)
}

/// The pause after a transaction that took `took`.
fn pause(took: Duration) -> Duration {
    (took * PAUSE_SHARE).max(PAUSE_MIN)
}

#[cfg(test)]
mod tests {
    use everhook_core::background::Purge;
    use everhook_core::id::Id;
    use everhook_core::time::Timestamp;

    use super::*;

    #[test]
    fn a_rate_holds_back_changes_and_no_count() {
        let work = BulkWork::Purge(Purge { application: ApplicationId(Id::MIN), until: Timestamp::default() });
        let pause = |effect| {
            let pace = Pace::of(BackgroundKind::Purge, &work, effect, Some(50));
            (pace.limit(), pace.pause(Duration::ZERO, 50))
        };
        assert_eq!(pause(Effect::Apply), (50, Duration::from_secs(1)));
        assert_eq!(pause(Effect::Count), (COUNT_SLICE, PAUSE_MIN));
    }
}
