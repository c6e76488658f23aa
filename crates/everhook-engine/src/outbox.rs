//! The relay: turns outbox rows into messages.
//!
//! Every node that accepts messages runs one loop per outbox. A claim lets only one node work on an outbox at a time:
//! the node takes a batch under the claim, appends it, and finishes the claim. Each batch is one append transaction.
//! The message ids therefore sort like the rows, and no row is accepted before an earlier one.
//!
//! If the result of an append is unknown, the rows stay in the outbox and are relayed again. Their deduplication keys
//! then show which rows are already accepted. The core makes all decisions about a message.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use everhook_core::draft::{self, Draft};
use everhook_core::id::{ApplicationId, EnvironmentId, Id, MessageId};
use everhook_core::limits::OUTBOX_CLAIM;
use everhook_core::message::{Message, Rest};
use everhook_core::name::Name;
use everhook_core::once::{OnceClaim, Phase};
use everhook_core::relay::{PollResult, RelayPace, id_time};
use everhook_core::scope::Scope;
use everhook_store::catalog::Locator;
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::lease::{Appended, NewMessage};
use everhook_store::outbox::{Done, Finished, Outbox, OutboxBatch, OutboxRow, Taken};
use everhook_store::query;
use everhook_store::store::Reads;
use everhook_store::uids::{Found, Uids};
use tracing::{debug, info, warn};

use crate::node::Node;

/// The environment of rows that name none, if the outbox is not limited to one environment.
const DEFAULT_ENVIRONMENT: &str = "default";
/// The interval at which the depth and age of an outbox are measured.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct RelaySource {
    /// The name for logs and metrics.
    pub name: String,
    pub outbox: Arc<dyn Outbox>,
    /// The only environment that its rows may use, or none if they may name any.
    pub environment: Option<String>,
    /// The longest time between two polls.
    pub poll_interval: Duration,
}

pub(crate) struct Relay {
    node: Arc<Node>,
    source: RelaySource,
    uids: Uids,
    environments: Mutex<HashMap<String, EnvironmentId>>,
}

/// A valid row with the message that it becomes.
struct RelayedRow {
    row: i64,
    locator: Locator<ApplicationId>,
    message: NewMessage,
}

/// Names that do not exist, remembered for one batch so that each is looked up once.
#[derive(Default)]
struct Missing {
    environments: HashSet<String>,
    applications: HashSet<(EnvironmentId, Name)>,
}

impl Relay {
    pub(crate) fn new(node: Arc<Node>, source: RelaySource) -> Relay {
        Relay { node, source, uids: Uids::default(), environments: Mutex::default() }
    }

    /// Relays rows until the node stops.
    pub(crate) async fn run(&self) {
        let stop = &self.node.stop;
        let name = &self.source.name;
        let mut pace = RelayPace::new(self.source.poll_interval);
        let (mut failing, mut looked_up) = (false, None);
        while !stop.is_cancelled() {
            let began = self.node.clock.elapsed();
            let look = match self.relay_next().await {
                Ok(look) => look,
                Err(error) if !failing => {
                    let error = &error as &dyn std::error::Error;
                    warn!(error, outbox = name, "could not read the outbox {name}: retrying, its rows stay in place");
                    PollResult::Failed
                }
                Err(_) => PollResult::Failed,
            };
            if failing && look != PollResult::Failed {
                info!(outbox = name, "the outbox {name} is relayed again");
            }
            failing = look == PollResult::Failed;
            let pause = pace.after(look, self.node.clock.elapsed().saturating_sub(began));
            if !failing && looked_up.is_none_or(|at| self.node.clock.elapsed().saturating_sub(at) >= STATUS_INTERVAL) {
                looked_up = Some(self.node.clock.elapsed());
                self.observe().await;
            }
            stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    }

    /// Takes a batch if one exists, and relays it.
    async fn relay_next(&self) -> Result<PollResult, StoreError> {
        if self.node.egress.is_closed() {
            // The rows of a copied outbox may have been relayed by the original.
            return Ok(PollResult::Nothing);
        }
        let (name, outbox) = (&self.source.name, &self.source.outbox);
        let asked = self.node.clock.elapsed();
        let (claim, batch) = match outbox.take().await? {
            Taken::Nothing => return Ok(PollResult::Nothing),
            Taken::Busy => return Ok(PollResult::Busy),
            Taken::Rows(claim, batch) => (claim, batch),
        };
        // Counted from before the request. The store grants the claim later, so it lasts at least until this time.
        let expires = asked + OUTBOX_CLAIM;
        match self.relay(&batch, expires).await {
            Ok(Some(done)) => {
                self.tell(&batch, &done);
                // Only now may rows be removed: they are durable as messages. If the process crashes before this call,
                // the claim expires and the rows are relayed again as duplicates without effect.
                if outbox.finish(claim, done).await? == Finished::Lost {
                    warn!(
                        outbox = name,
                        "lost the claim on the outbox {name}: its rows are relayed again and found to be duplicates"
                    );
                }
                Ok(PollResult::Rows)
            }
            Ok(None) => {
                warn!(outbox = name, "the claim on the outbox {name} expired before its rows were appended");
                Ok(PollResult::Busy)
            }
            Err(error) => {
                // The intake has already logged the error. An empty `finish` keeps the rows and releases the claim for
                // the next poll.
                debug!(error = &error as &dyn std::error::Error, "could not append the rows of the outbox {name}");
                outbox.finish(claim, Done::default()).await?;
                Ok(PollResult::Failed)
            }
        }
    }

    async fn observe(&self) {
        match self.source.outbox.status().await {
            Ok(status) => self.node.metrics.outbox(&self.source.name, status),
            Err(error) => debug!(error = &error as &dyn std::error::Error, "could not measure the outbox"),
        }
    }

    /// Returns the message for a row, or the reason why the row is invalid.
    async fn judge(
        &self,
        batch: &OutboxBatch,
        row: &OutboxRow,
        id: Id,
        missing: &mut Missing,
    ) -> Result<Result<RelayedRow, String>, StoreError> {
        let Some(environment) = self.environment(row, missing).await? else {
            let name = row.environment.as_deref().unwrap_or(DEFAULT_ENVIRONMENT);
            return Ok(Err(format!("there is no environment {name:?} that this outbox may send to")));
        };
        let locator = locator(&row.application);
        let found = match &locator {
            Some(locator) => self.application(environment, locator, missing).await?,
            None => None,
        };
        let (Some(locator), Some(found)) = (locator, found) else { return Ok(Err(no_application(row))) };
        let draft = Draft {
            event_type: row.event_type.clone(),
            event_id: row.event_id.clone(),
            channels: row.channels.clone(),
            tags: row.tags.clone(),
        };
        let now = self.node.clock.now();
        let checked = draft::check_payload_text(&row.payload)
            .and_then(|()| draft::check_deliver_at(row.deliver_at, now))
            .and_then(|_| draft.check())
            .map_err(|bad| bad.to_string())
            .and_then(|checked| Ok((checked, once_claim(row)?)));
        Ok(checked.map(|(checked, once)| {
            let mut keys = vec![DedupKey::outbox(&batch.identity, row.id, row.created_at)];
            keys.extend(checked.event_id.as_ref().map(|event_id| DedupKey::event_id(found.id, event_id)));
            let message = Message {
                id: MessageId(id),
                application: found.id,
                event_type: checked.event_type,
                event_id: checked.event_id,
                channels: checked.channels,
                tags: checked.tags,
                payload: Some(Bytes::copy_from_slice(row.payload.as_bytes())),
                created_at: now,
                rest: Rest { deliver_at: row.deliver_at, ..Rest::default() },
            };
            let (version, deliver_at) = (found.version, row.deliver_at);
            let message = NewMessage { keys, version, once, deliver_at, ..NewMessage::new(environment, message) };
            RelayedRow { row: row.id, locator, message }
        }))
    }

    /// The environment of a row, or none if it does not exist or this outbox may not use it.
    async fn environment(&self, row: &OutboxRow, missing: &mut Missing) -> Result<Option<EnvironmentId>, StoreError> {
        let only = self.source.environment.as_deref();
        let named = row.environment.as_deref().or(only).unwrap_or(DEFAULT_ENVIRONMENT);
        if only.is_some_and(|only| only != named) || missing.environments.contains(named) {
            return Ok(None);
        }
        if let Some(known) = self.known_environments().get(named) {
            return Ok(Some(*known));
        }
        let listed = self.node.store.read(query::Environments {}).await?;
        let mut known = self.known_environments();
        *known = listed.into_iter().map(|environment| (environment.name, environment.id)).collect();
        let found = known.get(named).copied();
        if found.is_none() {
            missing.environments.insert(named.to_owned());
        }
        Ok(found)
    }

    fn known_environments(&self) -> std::sync::MutexGuard<'_, HashMap<String, EnvironmentId>> {
        self.environments.lock().expect("nothing panics while it holds this lock")
    }

    /// The application of a row. A cached uid may be outdated; the append then fails with `NoApplication`.
    async fn application(
        &self,
        environment: EnvironmentId,
        locator: &Locator<ApplicationId>,
        missing: &mut Missing,
    ) -> Result<Option<Found>, StoreError> {
        let uid = match locator {
            Locator::Id(id) => return Ok(Some(Found { id: *id, version: None })),
            Locator::Uid(uid) => uid,
        };
        if let Some(found) = self.uids.guess(environment, uid) {
            return Ok(Some(found));
        }
        let key = (environment, uid.clone());
        if missing.applications.contains(&key) {
            return Ok(None);
        }
        let found = self.look_up(environment, uid).await?;
        if found.is_none() {
            missing.applications.insert(key);
        }
        Ok(found)
    }

    async fn look_up(&self, environment: EnvironmentId, uid: &Name) -> Result<Option<Found>, StoreError> {
        let scope = Scope::of(environment);
        let found = self.node.store.read(query::ResolveApplication { scope, uid: uid.clone() }).await?;
        Ok(found.map(|found| self.uids.remember(environment, uid, found)))
    }

    /// Retries a message whose application was found by an outdated cached uid. The message keeps its id, and with it
    /// its place in the order.
    async fn again(&self, member: &RelayedRow) -> Result<Appended, StoreError> {
        let NewMessage { environment, message, keys, .. } = &member.message;
        let found = match &member.locator {
            Locator::Id(_) => None,
            Locator::Uid(uid) => self.look_up(*environment, uid).await?,
        };
        let Some(found) = found else { return Ok(Appended::NoApplication) };
        let keys = keys.iter().map(|key| match &message.event_id {
            Some(event_id) if key.scope == everhook_store::dedup::DedupScope::EventId => {
                DedupKey::event_id(found.id, event_id)
            }
            _ => key.clone(),
        });
        let moved = NewMessage {
            message: Message { application: found.id, ..message.clone() },
            keys: keys.collect(),
            version: None,
            ..member.message.clone()
        };
        let mut accepted = self.node.accept_all(vec![moved]).await?;
        accepted.pop().unwrap_or(Ok(Appended::NoApplication))
    }

    /// Appends a batch in order. Returns none if the claim expired before the append. After an `Err` some rows may have
    /// been appended, and the unchanged batch must be relayed again.
    async fn relay(&self, batch: &OutboxBatch, expires: Duration) -> Result<Option<Done>, StoreError> {
        let mut done = Done { floor: batch.floor, set_aside: batch.unreadable.clone(), ..Done::default() };
        let at = id_time(self.node.clock.now(), batch.floor);
        let mut members = Vec::with_capacity(batch.rows.len());
        let mut missing = Missing::default();
        for row in &batch.rows {
            match self.judge(batch, row, self.node.ids.next(at), &mut missing).await? {
                Ok(member) => members.push(member),
                Err(reason) => done.set_aside.push((row.id, reason)),
            }
        }
        if self.node.clock.elapsed() >= expires {
            // Another relay may have claimed the rows. Appending them twice is harmless, because of their deduplication
            // keys. But this late append could put earlier rows after later ones of the other relay.
            return Ok(None);
        }
        let messages = members.iter().map(|member| member.message.clone()).collect();
        let accepted = self.node.accept_all(messages).await?;
        for (member, accepted) in members.iter().zip(accepted) {
            let judged = match (accepted, &member.locator) {
                (Ok(Appended::NoApplication), Locator::Uid(_)) => judged(self.again(member).await?),
                (Ok(accepted), _) => judged(accepted),
                (Err(error), _) => Err(refused(&error)),
            };
            match judged {
                Ok(id) => {
                    done.floor = done.floor.max(Some(id.0));
                    done.relayed.push(member.row);
                }
                Err(reason) => done.set_aside.push((member.row, reason)),
            }
        }
        Ok(Some(done))
    }

    /// Logs and counts an appended batch.
    fn tell(&self, batch: &OutboxBatch, done: &Done) {
        let name = &self.source.name;
        for (row, reason) in &done.set_aside {
            warn!(outbox = name, outbox.row = row, "set row {row} of the outbox {name} aside: {reason}");
        }
        self.node.metrics.outbox_relayed(name, batch.rows.iter().map(|row| row.age), done.set_aside.len());
    }
}

/// The store's reason for refusing this row alone.
fn refused(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {cause}")
}

/// Returns the id of the row's message, or the reason why the row was refused.
fn judged(accepted: Appended) -> Result<MessageId, String> {
    match accepted {
        Appended::Accepted { message, .. } => Ok(message.id),
        Appended::Repeated(id) => Ok(id),
        // Another message holds the once-slot. The row has reached its goal.
        Appended::Suppressed(winner) => Ok(winner),
        Appended::NoApplication => Err("its application does not exist".to_owned()),
        Appended::EventIdTaken => Err("a message with this eventId already exists".to_owned()),
        Appended::KeyReused => Err("its deduplication key was already used for a different request".to_owned()),
    }
}

/// The once-slot that a row claims.
fn once_claim(row: &OutboxRow) -> Result<Option<OnceClaim>, String> {
    let phase = row.once_phase.map(Phase::new).transpose().map_err(|bad| format!("oncePhase {bad}"))?;
    match &row.once_key {
        Some(key) => {
            let key = key.parse::<Name>().map_err(|bad| format!("onceKey {bad}"))?;
            Ok(Some(OnceClaim { key, phase }))
        }
        None if phase.is_some() => Err("oncePhase requires a onceKey".to_owned()),
        None => Ok(None),
    }
}

/// Parses an application id if the text has its prefix, otherwise a uid. Returns none if the text is neither.
fn locator(text: &str) -> Option<Locator<ApplicationId>> {
    if text.starts_with(ApplicationId::PREFIX) {
        return text.parse().ok().map(Locator::Id);
    }
    text.parse::<Name>().ok().map(Locator::Uid)
}

fn no_application(row: &OutboxRow) -> String {
    format!("there is no application {:?}", row.application)
}
