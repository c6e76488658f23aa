//! Commands of operators for deliveries, and corrections of dead ones. Called on the writer's thread.

use everhook_core::delivery::{DeliveryAction, DeliveryCommand, DeliveryKey};
use everhook_core::id::{EndpointId, EnvironmentId, MessageId, TaskId};
use everhook_core::lane::HoldKind;
use everhook_core::message::Message;
use everhook_core::task::{Task, TaskKey, TaskState, Trigger};
use everhook_store::append::new_delivery;
use everhook_store::statement;

use crate::append::{add_pending, write_message};
use crate::error::Fault;
use crate::order;
use crate::settle::free_lane;
use crate::sql::run;
use crate::steer::{Tries, cancel, request_cancel, wait};
use crate::writer::Tx;

statement! {
    ListTaskDelivery = "list_task_delivery" {
        environment: EnvironmentId, message: MessageId, endpoint: Option<EndpointId>,
    } -> Vec<(Task, TaskState)>;
}

/// Applies a command to the open tasks of a message; one action for each.
pub(crate) fn change(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    message: MessageId,
    endpoint: Option<EndpointId>,
    command: DeliveryCommand,
) -> Result<Vec<DeliveryAction>, Fault> {
    let mut actions = Vec::new();
    for (task, state) in run(tx.conn, ListTaskDelivery { environment, message, endpoint })? {
        let action = command.on(&task, state);
        if let Some(kind) = command.ends_hold(&task, state) {
            free_lane(tx, environment, task.lane, kind..=kind)?;
        }
        match action {
            DeliveryAction::End => cancel(tx, &task, command.note())?,
            DeliveryAction::RequestCancel => request_cancel(tx, &task.key)?,
            DeliveryAction::RunNow => wait(tx, &task, task.due_at.min(tx.now), Tries::Kept)?,
            DeliveryAction::Redrive => wait(tx, &task, tx.now, Tries::Fresh)?,
            DeliveryAction::Nothing | DeliveryAction::Refuse => {}
        }
        order::promote(tx, &task)?;
        actions.push(action);
    }
    Ok(actions)
}

/// Replaces a dead delivery by a corrected message; none if no task of the delivery is dead.
pub(crate) fn correct(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    dead: DeliveryKey,
    message: Message,
) -> Result<Option<Message>, Fault> {
    let open = ListTaskDelivery { environment, message: dead.message, endpoint: Some(dead.endpoint) };
    let tasks: Vec<Task> =
        run(tx.conn, open)?.into_iter().filter(|(_, state)| *state == TaskState::Dead).map(|(task, _)| task).collect();
    if tasks.is_empty() {
        return Ok(None);
    }
    let message = Message { created_at: tx.now, ..message };
    let note = format!("the dead delivery was replaced by {}", message.id);
    for task in &tasks {
        cancel(tx, task, &note)?;
        order::promote(tx, task)?;
    }
    free_lane(tx, environment, dead.endpoint.lane(), HoldKind::Blocked..=HoldKind::Blocked)?;
    write_message(tx, environment, &message)?;
    let key = TaskKey { environment, subject: message.id.0, id: TaskId(tx.ids.next(tx.now)) };
    add_pending(tx, &new_delivery(key, dead.endpoint.lane(), Trigger::Scheduled, tx.now))?;
    Ok(Some(message))
}
