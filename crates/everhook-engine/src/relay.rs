//! The relay: makes the rows of an outbox into messages, through the same door as every other message.
//!
//! One loop for each outbox, on every node that accepts; whoever holds the outbox's lock relays a batch. A batch is one append
//! transaction, so that the ids of its messages sort as its rows did and no later row is accepted before an earlier one. What the
//! outbox keeps of a batch that was perhaps appended is relayed again and found accepted. Decides nothing about a message that
//! the core does not decide.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::draft::{self, Draft};
use everhook_core::id::{ApplicationId, EnvironmentId, Id, MessageId};
use everhook_core::message::{Message, Rest};
use everhook_core::name::Name;
use everhook_core::once::{OnceClaim, Phase};
use everhook_core::relay::{PollResult, RelayPace, id_time};
use everhook_core::scope::Scope;
use everhook_store::catalog::Locator;
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::lease::NewMessage;
use everhook_store::outbox::{Done, Outbox, OutboxBatch, OutboxRow, Relayed, Relayer};
use everhook_store::query;
use everhook_store::store::{Reads, Store};
use everhook_store::uids::{Found, Uids};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::accept::{Accepted, Acceptor};
use crate::clock::Clock;
use crate::metrics::Metrics;

/// The environment of rows that name none, where the outbox is for no particular one.
const DEFAULT_ENVIRONMENT: &str = "default";
/// How often depth and age of an outbox are looked up.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// An outbox to relay.
#[derive(Clone)]
pub struct RelaySource {
    /// Its name, for people.
    pub name: String,
    /// Where the rows are.
    pub outbox: Arc<dyn Outbox>,
    /// The only environment its rows may be for; none where they may name any.
    pub environment: Option<String>,
    /// How long a row waits at most before someone looks.
    pub poll_interval: Duration,
}

/// The loop of one outbox.
pub(crate) struct Relay {
    pub(crate) source: RelaySource,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) acceptor: Arc<Acceptor>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) uids: Uids,
    pub(crate) environments: Mutex<HashMap<String, EnvironmentId>>,
}

/// A row that passed every check, as the message it becomes.
struct RelayedRow {
    row: i64,
    locator: Locator<ApplicationId>,
    message: NewMessage,
}

/// What was looked up in vain for a batch: it is not looked up again for each row, while the outbox is locked.
#[derive(Default)]
struct Missing {
    environments: HashSet<String>,
    applications: HashSet<(EnvironmentId, Name)>,
}

impl Relay {
    /// Relays until `stop`.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        let name = &self.source.name;
        let mut pace = RelayPace::new(self.source.poll_interval);
        let (mut failing, mut looked_up) = (false, None);
        while !stop.is_cancelled() {
            let began = self.clock.elapsed();
            let look = match self.source.outbox.relay(self).await {
                Ok(Relayed::Rows(_)) => PollResult::Rows,
                Ok(Relayed::Nothing) => PollResult::Nothing,
                Ok(Relayed::Busy) => PollResult::Busy,
                Ok(Relayed::Failed(error)) => {
                    // The acceptor has told the log already.
                    debug!(error = &error as &dyn std::error::Error, "could not append what the outbox {name} holds");
                    PollResult::Failed
                }
                Err(error) if !failing => {
                    let error = &error as &dyn std::error::Error;
                    warn!(error, outbox = name, "could not read the outbox {name}: trying again, its rows wait");
                    PollResult::Failed
                }
                Err(_) => PollResult::Failed,
            };
            if failing && look != PollResult::Failed {
                info!(outbox = name, "the outbox {name} is relayed again");
            }
            failing = look == PollResult::Failed;
            let pause = pace.after(look, self.clock.elapsed().saturating_sub(began));
            if !failing && looked_up.is_none_or(|at| self.clock.elapsed().saturating_sub(at) >= STATUS_INTERVAL) {
                looked_up = Some(self.clock.elapsed());
                self.observe().await;
            }
            stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    }

    async fn observe(&self) {
        match self.source.outbox.status().await {
            Ok(status) => self.metrics.outbox(&self.source.name, status),
            Err(error) => debug!(error = &error as &dyn std::error::Error, "could not look up how much waits"),
        }
    }

    /// What a row becomes, or why it becomes nothing.
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
        let now = self.clock.now();
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
            let message = NewMessage { environment, message, keys, version, once, deliver_at };
            RelayedRow { row: row.id, locator, message }
        }))
    }

    /// The environment a row is for; none if there is none, or not for this outbox.
    async fn environment(&self, row: &OutboxRow, missing: &mut Missing) -> Result<Option<EnvironmentId>, StoreError> {
        let only = self.source.environment.as_deref();
        let named = row.environment.as_deref().or(only).unwrap_or(DEFAULT_ENVIRONMENT);
        if only.is_some_and(|only| only != named) || missing.environments.contains(named) {
            return Ok(None);
        }
        if let Some(known) = self.known_environments().get(named) {
            return Ok(Some(*known));
        }
        let listed = self.store.read(query::Environments {}).await?;
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

    /// Where a row's application is, or was when it was last looked up.
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
        let found = self.store.read(query::ResolveApplication { scope, uid: uid.clone() }).await?;
        Ok(found.map(|found| self.uids.remember(environment, uid, found)))
    }

    /// Tries a message again whose uid has moved since it was remembered; under the id it has, so that it keeps its place.
    async fn again(&self, member: &RelayedRow) -> Result<Accepted, StoreError> {
        let NewMessage { environment, message, keys, .. } = &member.message;
        let found = match &member.locator {
            Locator::Id(_) => None,
            Locator::Uid(uid) => self.look_up(*environment, uid).await?,
        };
        let Some(found) = found else { return Ok(Accepted::NoApplication) };
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
        let mut accepted = self.acceptor.accept_all(vec![moved]).await?;
        accepted.pop().unwrap_or(Ok(Accepted::NoApplication))
    }

    /// Tells of a batch that was appended.
    fn tell(&self, batch: &OutboxBatch, done: &Done) {
        let name = &self.source.name;
        for (row, reason) in &done.set_aside {
            warn!(outbox = name, outbox.row = row, "set row {row} of the outbox {name} aside: {reason}");
        }
        self.metrics.outbox_relayed(name, batch.rows.iter().map(|row| row.age), done.set_aside.len());
    }
}

#[async_trait]
impl Relayer for Relay {
    async fn relay(&self, batch: &OutboxBatch) -> Result<Done, StoreError> {
        let mut done = Done { floor: batch.floor, set_aside: batch.unreadable.clone(), ..Done::default() };
        let at = id_time(self.clock.now(), batch.floor);
        let mut members = Vec::with_capacity(batch.rows.len());
        let mut missing = Missing::default();
        for row in &batch.rows {
            match self.judge(batch, row, self.ids.next(at), &mut missing).await? {
                Ok(member) => members.push(member),
                Err(reason) => done.set_aside.push((row.id, reason)),
            }
        }
        let messages = members.iter().map(|member| member.message.clone()).collect();
        let accepted = self.acceptor.accept_all(messages).await?;
        for (member, accepted) in members.iter().zip(accepted) {
            let judged = match (accepted, &member.locator) {
                (Ok(Accepted::NoApplication), Locator::Uid(_)) => judged(self.again(member).await?),
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
        self.tell(batch, &done);
        Ok(done)
    }
}

/// What the store said of a row that it took no offence at in the others.
fn refused(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {cause}")
}

/// The message that a row is now, or why it is none.
fn judged(accepted: Accepted) -> Result<MessageId, String> {
    match accepted {
        Accepted::New(message) => Ok(message.id),
        Accepted::Repeated(id) => Ok(id),
        // The slot is another message's, as it should be.
        Accepted::Suppressed(winner) => Ok(winner),
        Accepted::NoApplication => Err("its application does not exist, or no longer".to_owned()),
        Accepted::EventIdTaken => Err("a message with this eventId exists already".to_owned()),
        Accepted::KeyReused => Err("its key was used for something else".to_owned()),
    }
}

/// The slot that a row claims, if any.
fn once_claim(row: &OutboxRow) -> Result<Option<OnceClaim>, String> {
    let phase = row.once_phase.map(Phase::new).transpose().map_err(|bad| format!("oncePhase {bad}"))?;
    match &row.once_key {
        Some(key) => {
            let key = key.parse::<Name>().map_err(|bad| format!("onceKey {bad}"))?;
            Ok(Some(OnceClaim { key, phase }))
        }
        None if phase.is_some() => Err("oncePhase is of no use without a onceKey".to_owned()),
        None => Ok(None),
    }
}

/// An id if it begins like one, else a uid; none if it can be neither.
fn locator(text: &str) -> Option<Locator<ApplicationId>> {
    if text.starts_with(ApplicationId::PREFIX) {
        return text.parse().ok().map(Locator::Id);
    }
    text.parse::<Name>().ok().map(Locator::Uid)
}

fn no_application(row: &OutboxRow) -> String {
    format!("there is no application {:?}", row.application)
}
