//! Commands of operators for deliveries, and corrections of dead ones.
//!
//! Tasks are locked first, so that no settlement changes them before the commit. Lanes are locked last, as in an append.

use std::collections::BTreeMap;

use everhook_core::delivery::{DeliveryAction, DeliveryCommand, DeliveryKey};
use everhook_core::id::{AttemptId, EndpointId, EnvironmentId, LaneId, MessageId, TaskId};
use everhook_core::lane::HoldKind;
use everhook_core::lifecycle::EndState;
use everhook_core::message::Message;
use everhook_core::outcome::Class;
use everhook_core::task::{Task, TaskKey, TaskState, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::{TakesPosition, new_delivery};
use everhook_store::statement;

use crate::append::{AppendMessage, AppendPayloadExpiry, lower_lanes_due};
use crate::columns::{DueLane, DueLanes, Expiries, ExpiryRow, MessageRow, Subject, Subjects, TaskKeys};
use crate::error::Fault;
use crate::job::steer::{EndedTask, EndedTasks, FlagTask, MovedTask, RescheduleJobTask};
use crate::order::{append_ordered, key_of, promote};
use crate::settle::{FreeLane, FreedLane, FreedLanes};
use crate::store::PostgresStore;
use crate::tx::{Now, Tx};

statement! {
    LockTaskDelivery = "lock_task_delivery" { wanted: Subjects, endpoint: Option<EndpointId> }
        -> Vec<(Task, TaskState)>;
    CancelDelivery<'a> = "cancel_delivery" {
        ended: EndedTasks, class: Class, end_state: EndState, note: &'a [u8], started_at: Timestamp,
    };
}

impl PostgresStore {
    pub(crate) async fn steer_deliveries_once(
        &self,
        environment: EnvironmentId,
        message: MessageId,
        endpoint: Option<EndpointId>,
        command: DeliveryCommand,
    ) -> Result<Vec<DeliveryAction>, Fault> {
        let tx = self.database.tx().await?;
        let now = tx.begin(Now {}).await?.ok_or(Fault::Contended("the clock returned no row"))?;
        let steered = self.steer_locked(&tx, environment, (&[message], endpoint), command, now).await?;
        tx.commit().await?;
        Ok(steered.into_iter().map(|(_, action)| action).collect())
    }

    /// Locks the open tasks of messages, and carries out a command for each. The caller commits.
    pub(crate) async fn steer_locked(
        &self,
        tx: &Tx<'_>,
        environment: EnvironmentId,
        (messages, endpoint): (&[MessageId], Option<EndpointId>),
        command: DeliveryCommand,
        now: Timestamp,
    ) -> Result<Vec<(Task, DeliveryAction)>, Fault> {
        let tasks = lock(tx, environment, messages, endpoint).await?;
        let held = |(task, state): &(Task, TaskState)| Some((task.lane, command.ends_hold(task, *state)?));
        let mut freed: Vec<_> = tasks.iter().filter_map(held).collect();
        freed.sort_by_key(|(lane, kind)| (*lane, kind.to_db()));
        freed.dedup_by_key(|(lane, _)| *lane);
        // Lanes of deliveries with a key are locked, too, all in key order.
        let keyed = tasks.iter().filter(|(task, _)| task.order_key.is_some());
        let mut locked: BTreeMap<LaneId, FreedLane> =
            keyed.map(|(task, _)| (task.lane, FreedLane::locked(environment, task.lane))).collect();
        locked.extend(freed.into_iter().map(|(lane, kind)| (lane, FreedLane::new(environment, lane, kind..=kind))));
        let freed: FreedLanes = locked.into_values().collect();
        let planned: Vec<(Task, DeliveryAction)> =
            tasks.into_iter().map(|(task, state)| (task, command.on(&task, state))).collect();
        let with = |wanted: DeliveryAction| planned.iter().filter(move |(_, action)| *action == wanted);
        let flagged = TaskKeys::of(with(DeliveryAction::RequestCancel).map(|(task, _)| &task.key));
        let ended = with(DeliveryAction::End).map(|(task, _)| task);
        let moved = planned.iter().filter_map(|(task, action)| match action {
            DeliveryAction::RunNow => Some((task, false)),
            DeliveryAction::Redrive => Some((task, true)),
            _ => None,
        });
        // A task of an ordered lane keeps its due time.
        let mut lanes: BTreeMap<LaneId, Timestamp> = BTreeMap::new();
        for (task, _) in moved.clone() {
            let due_at = lanes.entry(task.lane).or_insert(now);
            *due_at = task.due_at.min(*due_at);
        }
        let moved = moved.map(|(task, fresh)| {
            let TaskKey { environment, subject, id } = task.key;
            let due_at = if fresh { now } else { task.due_at.min(now) };
            MovedTask { environment, subject, id, due_at, fresh }
        });
        let reschedule = (!lanes.is_empty()).then(|| RescheduleJobTask { moved: moved.collect() });
        let lanes: DueLanes = lanes.into_iter().map(|(lane, due_at)| DueLane::new(environment, lane, due_at)).collect();
        let free = freed.nonempty().map(|wanted| FreeLane { wanted });
        let (lock_lane, lower_lane) = lanes.nonempty().map(lower_lanes_due).unzip();
        let flag = flagged.nonempty().map(|flagged| FlagTask { flagged });
        let cancel = self.cancel(ended, command.note().as_bytes(), now);
        let promote = promote(planned.iter().filter_map(|(task, _)| key_of(task)));
        tx.run((flag, cancel, reschedule, free, (promote, lock_lane), lower_lane)).await?;
        Ok(planned)
    }

    pub(crate) async fn correct_once(
        &self,
        environment: EnvironmentId,
        dead: DeliveryKey,
        message: &Message,
    ) -> Result<Option<Message>, Fault> {
        let tx = self.database.tx().await?;
        let now = tx.begin(Now {}).await?.ok_or(Fault::Contended("the clock returned no row"))?;
        let tasks = lock(&tx, environment, &[dead.message], Some(dead.endpoint)).await?;
        let ended: Vec<Task> =
            tasks.into_iter().filter(|(_, state)| *state == TaskState::Dead).map(|(task, _)| task).collect();
        if ended.is_empty() {
            tx.roll_back().await?;
            return Ok(None);
        }
        let message = Message { created_at: now, ..message.clone() };
        let key = TaskKey { environment, subject: message.id.0, id: TaskId(self.ids.next(now)) };
        let task = new_delivery(key, dead.endpoint.lane(), Trigger::Scheduled, now);
        let fresh = [MessageRow::new(environment, &message)].into_iter().collect();
        let append_message = AppendMessage { fresh, created_at: now };
        let expiries: Expiries = ExpiryRow::new(environment, &message).into_iter().collect();
        let append_expiry = expiries.nonempty().map(|fresh| AppendPayloadExpiry { fresh });
        let append_task = append_ordered(&[(task, None)], TakesPosition::Behind);
        let note = format!("the dead delivery was replaced by {}", message.id);
        let cancel = self.cancel(ended.iter(), note.as_bytes(), now);
        let lanes = [DueLane::new(environment, task.lane, now)].into_iter().collect();
        let (lock_lane, lower_lane) = lower_lanes_due(lanes);
        let free_lane = FreedLane::new(environment, task.lane, HoldKind::Blocked..=HoldKind::Blocked);
        let free_lane = FreeLane { wanted: [free_lane].into_iter().collect() };
        let free_lane = (free_lane, promote(ended.iter().filter_map(key_of)));
        tx.finish((cancel, append_message, append_expiry, append_task, (free_lane, lock_lane), lower_lane)).await?;
        Ok(Some(message))
    }

    /// Ends tasks that no session holds.
    fn cancel<'t, 'a>(
        &self,
        tasks: impl Iterator<Item = &'t Task>,
        note: &'a [u8],
        now: Timestamp,
    ) -> Option<CancelDelivery<'a>> {
        let ended = |task: &Task| {
            let TaskKey { environment, subject, id } = task.key;
            EndedTask { environment, subject, id, attempt: AttemptId(self.ids.next(now)) }
        };
        let ended: EndedTasks = tasks.map(ended).collect();
        let (class, end_state) = (Class::Cancelled, EndState::Cancelled);
        ended.nonempty().map(|ended| CancelDelivery { ended, class, end_state, note, started_at: now })
    }
}

/// Locks the open tasks of messages.
async fn lock(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    messages: &[MessageId],
    endpoint: Option<EndpointId>,
) -> Result<Vec<(Task, TaskState)>, Fault> {
    let wanted = messages.iter().map(|message| Subject { environment, subject: message.0 }).collect();
    tx.run(LockTaskDelivery { wanted, endpoint }).await
}
