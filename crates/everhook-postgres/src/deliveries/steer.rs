//! Commands of operators for deliveries, and corrections of dead ones.
//!
//! Tasks are locked first, so that no settlement changes them before the commit. Lanes are locked last, as in an
//! append.

use std::collections::BTreeMap;

use everhook_core::delivery::{DeliveryAction, DeliveryCommand, DeliveryKey};
use everhook_core::id::{EndpointId, EnvironmentId, LaneId, MessageId, TaskId};
use everhook_core::lane::HoldKind;
use everhook_core::message::Message;
use everhook_core::task::{Task, TaskKey, TaskState, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::{TakesPosition, new_delivery};
use everhook_store::statement;

use crate::append::{AppendMessage, AppendPayloadExpiry, lower_lanes_due};
use crate::columns::{DueLane, Expiries, ExpiryRow, MessageRow, Subject, Subjects};
use crate::error::Fault;
use crate::order::{append_ordered, key_of, promote};
use crate::settle::{FreeLane, FreedLane, FreedLanes};
use crate::steer::{Moved, TaskChanges};
use crate::store::PostgresStore;
use crate::tx::Tx;

statement! {
    LockTaskDelivery = ["lock_task_delivery", "lock_task"] { wanted: Subjects, endpoint: Option<EndpointId> }
        -> Vec<(Task, TaskState)>;
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
        let now = tx.begin_now().await?;
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
        let mut changes = TaskChanges::default();
        for (task, action) in &planned {
            // A task of an ordered lane keeps its due time.
            let (lane, lane_due_at) = (task.lane, task.due_at.min(now));
            let (due_at, fresh) = match action {
                DeliveryAction::RunNow => (lane_due_at, false),
                DeliveryAction::Redrive => (now, true),
                DeliveryAction::RequestCancel => {
                    changes.flagged.push(*task);
                    continue;
                }
                DeliveryAction::End => {
                    changes.ended.push(*task);
                    continue;
                }
                DeliveryAction::Nothing | DeliveryAction::Refuse => continue,
            };
            changes.moved.insert(task.key, Moved { due_at, fresh, lane, lane_due_at });
        }
        let (flag, cancel, reschedule, lanes) = changes.statements(self, command.note().as_bytes(), now);
        let free = freed.nonempty().map(|wanted| FreeLane { wanted });
        let (lock_lane, lower_lane) = lanes.nonempty().map(lower_lanes_due).unzip();
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
        let now = tx.begin_now().await?;
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
        let cancel = self.cancel_tasks(ended.iter(), note.as_bytes(), now);
        let lanes = [DueLane::new(environment, task.lane, now)].into_iter().collect();
        let (lock_lane, lower_lane) = lower_lanes_due(lanes);
        let free_lane = FreedLane::new(environment, task.lane, HoldKind::Blocked..=HoldKind::Blocked);
        let free_lane = FreeLane { wanted: [free_lane].into_iter().collect() };
        let free_lane = (free_lane, promote(ended.iter().filter_map(key_of)));
        tx.finish((cancel, append_message, append_expiry, append_task, (free_lane, lock_lane), lower_lane)).await?;
        Ok(Some(message))
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
