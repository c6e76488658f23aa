//! One of the two compared stores, with its answers as text that is the same on both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::endpoint::EndpointState;
use everhook_core::id::{EnvironmentId, Id, MessageId, OrgId};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::name::Name;
use everhook_core::once::{OnceClaim, Phase};
use everhook_core::outcome::Class;
use everhook_core::role::Role;
use everhook_core::scope::AppScope;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Order, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::history::{Redrive, Resend};
use everhook_store::lease::{
    Append, Appended, LeaseAsk, Leased, NewAttempt, NewMessage, NewSession, Reclaim, ReclaimAsk, Renewed, Settlement,
};
use everhook_store::query;
use everhook_store::store::Reads;

use crate::conformance::fixture::{
    FixedCapacity, HOUR, PLENTY, fast, name, new_application, new_endpoint, new_message, request_key,
};
use crate::conformance::model::ops::{Draft, ENVIRONMENTS, Ending, Op, Place, Script, Step, Twist};
use crate::conformance::stage::Stage;

/// The channel of the second endpoint.
const CHANNEL: &str = "x";

/// A store with all leases so far.
pub(super) struct Side {
    store: Arc<dyn Stage>,
    environments: Vec<EnvironmentId>,
    leases: Vec<HeldLease>,
    said: Vec<Vec<Settlement>>,
}

/// A task at the time of a lease.
#[derive(Clone, Copy)]
struct HeldLease {
    task: Task,
    session: usize,
}

impl Side {
    /// Creates the same endpoints in two environments.
    pub(super) async fn new(store: Arc<dyn Stage>, script: &Script) -> Side {
        let mut environments = Vec::new();
        for n in 0..ENVIRONMENTS {
            let mut org = *script.application.as_bytes();
            org[0] = u8::try_from(n).expect("there are two");
            let environment = store.stage_environment(OrgId(Id::from_bytes(org)), &format!("e{n}")).await;
            store.stage_application(environment, &new_application(script.application)).await;
            for (n, id) in script.endpoints.iter().enumerate() {
                let mut endpoint = new_endpoint(*id, script.application);
                endpoint.channels = (n == 1).then(|| vec![name(CHANNEL)]);
                store.stage_endpoint(environment, &endpoint).await;
            }
            environments.push(environment);
        }
        Side { store, environments, leases: Vec::new(), said: Vec::new() }
    }

    /// Performs a step and returns its result as text.
    pub(super) async fn apply(&mut self, script: &Script, step: &Step) -> String {
        match step {
            Step::Do(op) => self.apply_op(script, op).await,
            Step::Append { fast, drafts } => self.append(script, *fast, drafts).await,
            Step::Settle(endings) => {
                let made = endings.iter().filter_map(|(id, ending)| self.settlement(script, id.0, ending)).collect();
                self.settle(made).await
            }
            Step::Look => self.look(script).await,
            Step::Skip => String::new(),
        }
    }

    async fn apply_op(&mut self, script: &Script, op: &Op) -> String {
        let store = Arc::clone(&self.store);
        match op {
            Op::Open { session, lasting } => {
                let lease = if *lasting { HOUR } else { Duration::ZERO };
                let id = script.sessions[*session];
                let session =
                    NewSession { id, node: String::new(), role: Role::All, version: String::new(), lease, takes: None };
                store.open_session(session.clone()).await.unwrap();
                String::new()
            }
            Op::Renew { session } => match store.renew_session(script.sessions[*session]).await.unwrap() {
                Renewed::Open(_) => "open".to_owned(),
                Renewed::Moved(_) => "moved".to_owned(),
                Renewed::Closed => "closed".to_owned(),
            },
            Op::Close { session } => {
                store.close_session(script.sessions[*session]).await.unwrap();
                String::new()
            }
            Op::CloseExpired => {
                let mut closed = store.close_expired(Duration::MAX).await.unwrap();
                closed.sort();
                format!("{closed:?}")
            }
            Op::Lease { session, per_lane, free_by_lane: free } => self.lease(script, *session, *per_lane, free).await,
            Op::SayAgain { which } => match self.said.iter().rev().nth(*which).cloned() {
                Some(batch) => self.settle(batch).await,
                None => String::new(),
            },
            Op::Reclaim { session } => {
                let taken = store
                    .reclaim(ReclaimAsk {
                        session: script.sessions[*session],
                        limit: PLENTY * PLENTY,
                        what: Reclaim::Orphaned,
                    })
                    .await
                    .unwrap();
                let mut taken: Vec<_> = taken.into_iter().map(|taken| taken.task).collect();
                // The order does not matter for the result, but later steps count leases.
                taken.sort_by_key(|task| (task.key.subject, task.trigger.to_db()));
                let told = self.remember(script, *session, taken.into_iter().map(|task| (task, String::new())));
                told.into_values().flatten().collect::<Vec<_>>().join(", ")
            }
            Op::Append { .. } | Op::Settle(_) => unreachable!("the script gives them their ids"),
            Op::Switch { .. }
            | Op::Delete { .. }
            | Op::Redrive { .. }
            | Op::Resend { .. }
            | Op::Expunge { .. }
            | Op::ResetOnce { .. } => self.apply_wish(script, op).await,
        }
    }

    /// Performs an operation of an operator.
    async fn apply_wish(&self, script: &Script, op: &Op) -> String {
        let store = &self.store;
        match op {
            Op::Switch { place, on } => {
                let state = if *on { EndpointState::Enabled } else { EndpointState::Disabled };
                let (environment, endpoint) = self.at(script, *place);
                store.switch_endpoint(AppScope::of(environment, script.application), endpoint, state).await;
                String::new()
            }
            Op::Delete { place } => {
                let (environment, endpoint) = self.at(script, *place);
                store.drop_endpoint(environment, script.application, endpoint).await.to_string()
            }
            Op::Redrive { place } => {
                let (environment, endpoint) = self.at(script, *place);
                let redrive = Redrive { endpoint, message: None, since: None, until: None, limit: PLENTY };
                store.ask_redrive(environment, &redrive).await.to_string()
            }
            Op::Resend { place, message } => {
                let Some(message) = script.messages.get(*message) else { return String::new() };
                let (environment, endpoint) = self.at(script, *place);
                let resend = Resend { application: script.application, message: *message, endpoint, key: None };
                format!("{:?}", store.ask_resend(environment, &resend).await)
            }
            Op::Expunge { environment, message } => {
                let Some(message) = script.messages.get(*message) else { return String::new() };
                let environment = self.environments[*environment];
                store.drop_payload(environment, script.application, *message).await.to_string()
            }
            Op::ResetOnce { environment, key } => {
                let environment = self.environments[*environment];
                store.reset_once(AppScope::of(environment, script.application), slot(*key)).await.unwrap().to_string()
            }
            _ => unreachable!("no wish of an operator"),
        }
    }

    async fn append(&mut self, script: &Script, path: Option<(usize, usize)>, drafts: &[(usize, Draft)]) -> String {
        let now = self.store.now().await.unwrap();
        let messages = drafts.iter().map(|(message, draft)| self.new_message(script, *message, draft, now)).collect();
        let path_here = path.map(|(session, capacity)| fast(script.sessions[session], &FixedCapacity::of(capacity)));
        let answers = self.store.append(Append { fast: path_here, messages }).await.unwrap();
        let session = path.map_or(0, |(session, _)| session);
        let mut told = String::new();
        for answer in answers {
            match answer {
                Appended::Accepted { leased, pending, .. } => {
                    let tasks = leased.iter().map(|(leased, _)| (leased.task, String::new()));
                    let leased = self.remember(script, session, tasks);
                    let _ = write!(told, "accepted {leased:?} and {pending}; ");
                }
                Appended::Repeated(id) => {
                    let _ = write!(told, "repeated m{:?}; ", number(script, id.0));
                }
                other => {
                    let _ = write!(told, "{other:?}; ");
                }
            }
        }
        told
    }

    fn new_message(&self, script: &Script, message: usize, draft: &Draft, now: Timestamp) -> NewMessage {
        let mut message = new_message(script.messages[message], script.application);
        message.payload = Some(Bytes::from(format!("{{\"e\":{}}}", draft.environment)));
        message.channels = if draft.on_channel { vec![name(CHANNEL)] } else { Vec::new() };
        message.event_id = draft.event_id.map(|n| name(&format!("event-{n}")));
        let mut keys: Vec<DedupKey> = Vec::new();
        keys.extend(draft.key.map(|(key, body)| request_key(&key.to_string(), &body.to_string())));
        keys.extend(message.event_id.as_ref().map(|event_id| DedupKey::event_id(script.application, event_id)));
        let phase = |number: u8| Phase::new(i64::from(number)).unwrap();
        let once = draft.once.map(|(key, number)| OnceClaim { key: slot(key), phase: number.map(phase) });
        let deliver_at = draft.later.then(|| now.plus(HOUR));
        NewMessage { keys, once, deliver_at, ..NewMessage::new(self.environments[draft.environment], message) }
    }

    async fn lease(
        &mut self,
        script: &Script,
        session: usize,
        per_lane: usize,
        free_by_lane: &[(usize, usize)],
    ) -> String {
        // A capacity names a lane only by its id, and here two lanes share each id. A store that skips as many lanes as
        // there are lanes without capacity may miss the next one. This only loses a hint, which is allowed.
        let hinted = free_by_lane.iter().all(|(_, capacity)| *capacity > 0);
        let free_by_lane =
            free_by_lane.iter().map(|(lane, capacity)| (script.endpoints[*lane].lane(), *capacity)).collect();
        let ask =
            LeaseAsk { free_by_lane, per_lane, ..LeaseAsk::deliveries(script.sessions[session], PLENTY * PLENTY) };
        let grant = self.store.lease(ask).await.unwrap();
        let next = if hinted { soon_or_later(grant.next_ready) } else { "unknown" };
        let told = self.remember(script, session, grant.tasks.iter().map(|leased| (leased.task, what(leased))));
        format!("{told:?}, then {next}")
    }

    /// Records the leases and returns them as text, each lane in its order.
    fn remember(
        &mut self,
        script: &Script,
        session: usize,
        tasks: impl Iterator<Item = (Task, String)>,
    ) -> BTreeMap<String, Vec<String>> {
        let mut tasks: Vec<_> = tasks.map(|(task, what)| (self.lane_name(script, &task), task, what)).collect();
        // Lanes may come in any order, but the order within a lane matters.
        tasks.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (lane, task, what) in tasks {
            let text = format!(
                "m{:?} {:?} epoch {} tries {} crashes {}{what}",
                number(script, task.key.subject),
                task.trigger,
                task.epoch,
                task.tries,
                task.crashes
            );
            told.entry(lane).or_default().push(text);
            self.leases.push(HeldLease { task, session });
        }
        told
    }

    fn settlement(&self, script: &Script, attempt: Id, ending: &Ending) -> Option<Settlement> {
        let HeldLease { task, session } = *self.leases.iter().rev().nth(ending.lease)?;
        let session = session + usize::from(ending.twist == Twist::Session);
        let (class, end) = match ending.row {
            NextRow::Gone => (Class::Success, EndState::Succeeded),
            NextRow::Pending { .. } => (Class::Status, EndState::Open),
            NextRow::Dead => (Class::Timeout, EndState::Dead),
        };
        let logged = NewAttempt {
            id: everhook_core::id::AttemptId(attempt),
            holder: None,
            class,
            end,
            trigger: task.trigger,
            url: "https://example.com/".to_owned(),
            status: 200,
            reply: Bytes::new(),
            started_at: Timestamp::default(),
            duration: Duration::ZERO,
            exchange: None,
        };
        Some(Settlement {
            key: task.key,
            kind: task.kind,
            lane: task.lane,
            batch: task.batch,
            session: script.sessions[session % script.sessions.len()],
            epoch: task.epoch + u32::from(ending.twist == Twist::Epoch),
            row: ending.row,
            tries: task.tries + u32::from(ending.logged),
            crashes: task.crashes + u32::from(class == Class::Timeout),
            attempt: ending.logged.then_some(logged),
            hold_lane: ending.hold,
            limits: Default::default(),
            order_key: task.order_key,
            stop_lane: ending.disable,
            result: None,
        })
    }

    async fn settle(&mut self, batch: Vec<Settlement>) -> String {
        let settled = self.store.settle(batch.clone().into()).await.unwrap().answer;
        self.said.push(batch);
        format!("{settled:?}")
    }

    async fn look(&self, script: &Script) -> String {
        let now = self.store.now().await.unwrap();
        let mut told = String::new();
        for (n, environment) in self.environments.iter().enumerate() {
            for message in &script.messages {
                let seen = self.look_at(script, *environment, *message, now).await;
                if !seen.is_empty() {
                    let _ = write!(told, "\n    e{n} m{:?}: {seen}", number(script, message.0));
                }
            }
            let all = Slice { after: None, order: Order::Ascending, limit: PLENTY };
            for seen in self
                .store
                .read(query::OnceSlots { scope: AppScope::of(*environment, script.application), slice: all.clone() })
                .await
                .unwrap()
            {
                let _ = write!(told, "\n    e{n} {}: {:?}, {} suppressed", seen.key, seen.slot, seen.suppressed);
            }
        }
        told
    }

    async fn look_at(&self, script: &Script, environment: EnvironmentId, id: MessageId, now: Timestamp) -> String {
        let mut told = String::new();
        for seen in self.store.destinations_of(environment, script.application, id).await {
            let (endpoint, on) = (number_of(&script.endpoints, &seen.endpoint.id), seen.endpoint.state);
            let next = soon_or_later(seen.next_attempt.map(|at| at.since(now)));
            let _ = write!(told, "{endpoint:?} ({on:?}) {:?}, next {next}; ", seen.state);
        }
        for seen in self.store.attempts_of(environment, script.application, id).await {
            let endpoint = number_of(&script.endpoints, &seen.endpoint);
            let _ = write!(told, "{endpoint:?} epoch {} {:?} {:?} {:?}; ", seen.epoch, seen.trigger, seen.end, seen.id);
        }
        told
    }

    fn at(&self, script: &Script, place: Place) -> (EnvironmentId, everhook_core::id::EndpointId) {
        (self.environments[place.environment], script.endpoints[place.endpoint])
    }

    fn lane_name(&self, script: &Script, task: &Task) -> String {
        let environment = number_of(&self.environments, &task.key.environment);
        let endpoint = script.endpoints.iter().position(|endpoint| endpoint.lane() == task.lane);
        format!("e{environment:?} lane {endpoint:?}")
    }
}

/// Describes the objects that came with a leased task.
fn what(leased: &Leased) -> String {
    let payload = leased.message().map(|message| message.payload.clone());
    let endpoint = leased.endpoint().map(|endpoint| endpoint.state);
    format!(" {payload:?} to {endpoint:?}")
}

fn number(script: &Script, subject: Id) -> Option<usize> {
    number_of(&script.messages, &MessageId(subject))
}

fn number_of<T: PartialEq>(all: &[T], one: &T) -> Option<usize> {
    all.iter().position(|other| other == one)
}

fn slot(key: u8) -> Name {
    name(&format!("slot-{key}"))
}

fn soon_or_later(wait: Option<Duration>) -> &'static str {
    match wait {
        None => "never",
        Some(wait) if wait < HOUR / 2 => "soon",
        Some(_) => "later",
    }
}
